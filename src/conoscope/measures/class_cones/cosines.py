"""Class cones: whether the direction of the vector that stands for a text tells the class."""

import math
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor

from conoscope.measures.base import QUANTILES, Part, Reading, also_reads, reads
from conoscope.measures.class_cones.directions import KINDS, ROUNDING, Cones, Examples
from conoscope.measures.correlation import spearman
from conoscope.measures.needs import Need
from conoscope.sums.samples import First, Sample
from conoscope.sums.statistics import Covariance, Directions, Histogram

SITES = ("hidden", "key", "value")
VECTORS = ("last", "all")
CENTRED = ("first", "held_out")
"""Representatives whose cosines are also taken around the mean of the representatives."""

ByLayer = Mapping[int, Any]


def parts(vectors: str) -> Iterator[Part]:
    """The sums and samples of each site."""
    for site in SITES:
        needs = {
            "sums": Need.of(Directions, "class_directions", site=site),
            "spread": Need.of(Covariance, "class_units", site=site),
            "correct": Need.of(First, "first_correct", site=site),
            "sample": Need.of(Sample, "class_vectors", site=site, layers=vectors),
        }
        yield Part({"site": site}, False, needs)


def _answered_parts(vectors: str) -> Iterator[Part]:
    """The same blocks, with the confusion matrix of the model."""
    for part in parts(vectors):
        yield replace(part, needs={**part.needs, "confusion": Need.of(Histogram, "confusion")})


def cones_of(sums: ByLayer, spread: ByLayer, correct: ByLayer, sample: ByLayer) -> Iterator[tuple[int, Cones]]:
    """The class cones of each layer."""
    for layer, here in sums.items():
        vectors = sample.get(layer)
        examples = None if vectors is None else Examples.of(vectors)
        first = correct.get(layer)
        first = first if first is not None and len(first.groups) else None
        yield layer, Cones(here, spread.get(layer), first, examples if examples is not None and examples.differ else None)


def _moments(cones: Cones, kind: str) -> tuple[Float[Tensor, "c g"], Float[Tensor, "c g"], Int[Tensor, "c g"]]:
    """Mean, standard deviation and number of the cosines of gold class g with the representative of class c, from sums.

    The first correct example is left out of its own class. NaN where the sums do not suffice.
    """
    if kind == "held_out":
        # The examples of one half have a cosine with the classes that occur in the other half.
        others = cones.of_halves().flip(0)
        sums = torch.einsum("hcd,hgd->cg", others.nan_to_num(), cones.sums.units)
        count = torch.einsum("hc,hg->cg", (~others.isnan().any(-1)).long(), cones.sums.count)
        return sums / count, torch.full_like(sums, torch.nan), count
    representatives = cones.of_kind(kind)
    itself = torch.eye(cones.classes, dtype=torch.float64) * (kind == "first")
    count = cones.directions.count.expand(cones.classes, -1) - itself.long()
    mean = (representatives @ cones.directions.units.T - itself) / count
    if cones.spread is None:
        return mean, _sampled_spread(cones, kind), count
    scatter = torch.einsum("cd,gde,ce->cg", representatives, cones.spread.scatter, representatives)
    # The representative has a cosine of 1 with itself: leaving it out takes (1 - mean)² n / (n - 1) off its class's scatter.
    scatter = scatter - itself * (1 - (mean * count + itself) / (count + 1)).square() * (count + 1) / count.clamp_min(1)
    return mean, (scatter.clamp_min(0) / (count - 1)).sqrt().where(count > 1, torch.nan), count


def _sampled_spread(cones: Cones, kind: str) -> Float[Tensor, "c g"]:
    found = torch.full((cones.classes, cones.classes), torch.nan, dtype=torch.float64)
    if cones.examples is not None:
        cosines = cones.cosines(kind)
        for gold in cones.examples.gold.unique().tolist():
            here = cosines[cones.examples.gold == gold]
            for number in range(cones.classes):
                defined = here[:, number][~here[:, number].isnan()]
                found[number, gold] = defined.std() if len(defined) > 1 else torch.nan
    return found


def _quantiles(cones: Cones, kind: str) -> dict[str, Float[Tensor, "c g"]]:
    """Quantiles of the sampled examples' cosines, plain and around the mean of the representatives; NaN without a sample."""
    plain = _quantiles_of(cones, None if cones.examples is None else cones.cosines(kind))
    has_centred = cones.examples is not None and kind in CENTRED
    centred = _quantiles_of(cones, cones.centred_cosines(kind) if has_centred else None)
    return {**plain, **{f"centred_{name}": values for name, values in centred.items()}}


def _quantiles_of(cones: Cones, cosines: Float[Tensor, "n c"] | None) -> dict[str, Float[Tensor, "c g"]]:
    found = torch.full((len(QUANTILES), cones.classes, cones.classes), torch.nan, dtype=torch.float64)
    if cones.examples is not None and cosines is not None:
        levels = torch.tensor(list(QUANTILES.values()), dtype=torch.float64)
        for gold in cones.examples.gold.unique().tolist():
            found[:, :, gold] = cosines[cones.examples.gold == gold].nanquantile(levels, dim=0)
    return dict(zip(QUANTILES, found, strict=True))


@reads(parts, within=(-1, 1), source="Fosse et al. 2023", labels=True, across=True, vectors=VECTORS)
def class_cones(**found: ByLayer) -> Iterator[Reading]:
    """The cosine of each text's vector with one direction for each class, by the example's own class.

    It is the vector that stands for the text: what the classifier reads, where there is one; see `pooling`.
    Representatives: the `first` example of the class that the model gets right, as published (it is left out of the
    cosines); the `mean` direction of the class; that of the other half of the corpus (`held_out`); the `medoid` of the
    sampled examples. Means come from sums, over all examples; quantiles from the sampled ones. `centred_q05` to `centred_q95`
    are quantiles of cos(u - m, r - m), with m the mean of the classes' representatives r: what all classes share is out of it.
    """
    for layer, cones in cones_of(**found):
        for kind in kinds_of(cones):
            mean, spread, count = _moments(cones, kind) if kind != "medoid" else _sampled_moments(cones)
            quantiles = _quantiles(cones, kind)
            for number in range(cones.classes):
                for gold in range(cones.classes):
                    at = (number, gold)
                    more = {name: float(values[at]) for name, values in quantiles.items()}
                    row = Reading.of_one(mean[at], spread[at], count[at], **more)
                    yield row.with_keys(layer=layer, representative=kind, **{"class": number, "gold": gold})


def kinds_of(cones: Cones) -> list[str]:
    """The kinds of representatives that there are."""
    missing = ({"first"} if cones.correct is None else set()) | ({"medoid"} if cones.examples is None else set())
    return [kind for kind in KINDS if kind not in missing]


def _sampled_moments(cones: Cones) -> tuple[Tensor, Tensor, Tensor]:
    assert cones.examples is not None
    cosines, own = cones.cosines("medoid"), cones.examples.gold[:, None] == torch.arange(cones.classes)
    mean = torch.stack([cosines[own[:, gold]].nanmean(0) for gold in range(cones.classes)], dim=1)
    count = torch.stack([(~cosines[own[:, gold]].isnan()).sum(0) for gold in range(cones.classes)], dim=1)
    return mean, _sampled_spread(cones, "medoid"), count


@also_reads("class_cones.between", parts, within=(-1, 1), across=True)
def between(**found: ByLayer) -> Iterator[Reading]:
    """The cosine of each two classes' representatives."""
    for layer, cones in cones_of(**found):
        for kind in (kind for kind in kinds_of(cones) if kind != "held_out"):
            representatives = cones.of_kind(kind)
            cosines = representatives @ representatives.T
            for number, other in zip(*torch.triu_indices(cones.classes, cones.classes, 1).tolist(), strict=True):
                row = Reading.of_one(cosines[number, other])
                yield row.with_keys(layer=layer, representative=kind, **{"class": number, "other_class": other})


@also_reads("class_cones.classes", _answered_parts, within=(-1, 1), across=True)
def classes(confusion: ByLayer, **found: ByLayer) -> Iterator[Reading]:
    """Of each class: the mean cosine of its own examples with its representative, of all others, and the model's accuracy.

    `margin` and `wrong_margin` are twice the standard error.
    """
    accuracy = _accuracy(confusion)
    for layer, cones in cones_of(**found):
        for kind in (kind for kind in kinds_of(cones) if kind != "medoid"):
            own, other = _own_and_other(*_moments(cones, kind))
            for number, (true, wrong) in enumerate(zip(own, other, strict=True)):
                more = {"margin": _margin(*true), "wrong": wrong[0], "wrong_margin": _margin(*wrong)}
                row = Reading.of_one(*true, **more, accuracy=math.nan if accuracy is None else accuracy[number])
                yield row.with_keys(layer=layer, representative=kind, **{"class": number})


def _margin(mean: float, sd: float, n: int) -> float:
    return 2 * sd / n**0.5 if n > 0 else math.nan


Moments = tuple[float, float, int]


def _own_and_other(
    mean: Float[Tensor, "c g"], spread: Float[Tensor, "c g"], count: Int[Tensor, "c g"]
) -> tuple[list[Moments], list[Moments]]:
    """Mean, standard deviation and number of the cosines of a class's own examples, and of all others together."""
    own = [(float(mean[c, c]), float(spread[c, c]), int(count[c, c])) for c in range(len(mean))]
    other = []
    for c in range(len(mean)):
        n = count[c].double()
        n[c] = 0
        total = n.sum()
        average = (n * mean[c]).where(n > 0, 0.0).sum() / total
        scatter = ((n - 1).clamp_min(0) * spread[c].nan_to_num() ** 2 + n * (mean[c] - average) ** 2).where(n > 0, 0.0).sum()
        known = bool((spread[c].isfinite() | (n < 2)).all())
        sd = (scatter / (total - 1)).sqrt() if known else torch.tensor(torch.nan)
        other.append((float(average), float(sd), int(total)))
    return own, other


def _accuracy(confusion: ByLayer) -> list[float] | None:
    """The model's accuracy for each class; None for a model that does not classify."""
    counts: Tensor | None = next((histogram.counts for histogram in confusion.values()), None)
    if counts is None or not counts.sum():
        return None
    shares: list[float] = (counts.diagonal().double() / counts.sum(-1)).tolist()
    return shares


@also_reads("class_cones.correlation", _answered_parts, within=(-1, 1), across=True)
def correlation(confusion: ByLayer, **found: ByLayer) -> Iterator[Reading]:
    """Pearson's correlation over classes of the mean cosine with the own representative and the model's accuracy.

    Spearman's beside it. Of three classes or more.
    """
    accuracy = _accuracy(confusion)
    if accuracy is None:
        return
    for layer, cones in cones_of(**found):
        for kind in (kind for kind in kinds_of(cones) if kind != "medoid"):
            true = _moments(cones, kind)[0].diagonal()
            pair = torch.stack((true, torch.tensor(accuracy, dtype=torch.float64)))
            pair = pair[:, pair.isfinite().all(0)]
            if pair.shape[1] >= 3 and bool((pair.amax(-1) - pair.amin(-1) > ROUNDING).all()):
                beside = spearman(*pair)
                row = Reading.of_one(torch.corrcoef(pair)[0, 1], n=pair.shape[1], spearman=beside)
                yield row.with_keys(layer=layer, representative=kind)
