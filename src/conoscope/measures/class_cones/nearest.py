"""The nearest-cone classifier, its controls, and the examples nearest to each cone."""

from collections.abc import Iterator, Sequence

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from conoscope.measures.base import Reading, also_reads
from conoscope.measures.class_cones.cosines import ByLayer, cones_of, kinds_of, parts
from conoscope.measures.class_cones.directions import ROUNDING, Examples, nearest_class, order_of_size
from conoscope.measures.class_cones.permutations import Permuted, permuted

SHOWN = 5
"""How many of the nearest and of the farthest examples are named."""
OF_PERMUTATIONS = ("observed", "low", "high", "p", "permutations")
"""The columns filled for permuted labels only: the score of the true labels, the range of the permuted scores, and so on."""


@also_reads("class_cones.nearest", parts, within=(0, 1), across=True)
def nearest(**found: ByLayer) -> Iterator[Reading]:
    """The nearest-cone classifier: accuracy of taking the class whose representative has the largest cosine.

    `agreement` is with the model's answers, `model` the model's own accuracy on the same examples, `chance` the share of
    the largest class. No example is scored with a representative that it helped to make. Controls: `norm`, the nearest
    mean length, of the other half, in place of the nearest direction; `shuffled`, the median of the scores of 200
    permutations of the sampled labels, with their range and the p-value of the score of the true ones.
    """
    for layer, cones in cones_of(**found):
        if cones.examples is None:
            continue
        rows = [("none", kind, _scored(cones.cosines(kind), cones.examples)) for kind in kinds_of(cones)]
        rows += [("norm", "held_out", _scored(_norm_scores(cones.examples, cones.classes), cones.examples))]
        shuffled = permuted(cones.examples)
        rows += [("shuffled", "held_out", _permuted(shuffled, cones.examples))] if shuffled is not None else []
        for control, kind, reading in rows:
            yield reading.with_keys(layer=layer, representative=kind, control=control)


def scored_examples(
    scores: Float[Tensor, "n c"], examples: Examples
) -> tuple[Int[Tensor, " n"], Float[Tensor, " k"], Bool[Tensor, " n"]]:
    """The class of the largest score of each example, whether it is that of each scored example, and which ones are scored."""
    # An example that is itself a representative is not scored; a class without a representative is never the nearest.
    gold = examples.gold
    scored = ~scores.gather(1, gold[:, None])[:, 0].isnan()
    # Ties go to the largest class: if all directions are the same, the accuracy is then chance.
    order = order_of_size(gold, scores.shape[1])
    chosen = order[nearest_class(scores[:, order])]
    return chosen, (chosen == gold)[scored].double(), scored


def _scored(scores: Float[Tensor, "n c"], examples: Examples) -> Reading:
    chosen, right, scored = scored_examples(scores, examples)
    agrees = (chosen == examples.predicted)[scored].double()
    agreement = float(agrees.mean()) if _has_predictions(examples) else torch.nan
    more = {"agreement": agreement, **_references(examples, scored), **dict.fromkeys(OF_PERMUTATIONS, torch.nan)}
    return Reading.of_one(right.mean(), right.std() if len(right) > 1 else torch.nan, len(right), **more)


def _permuted(shuffled: Permuted, examples: Examples) -> Reading:
    defined = shuffled.scores[~shuffled.scores.isnan()]
    values = (shuffled.observed, float(defined.min()), float(defined.max()), shuffled.p, len(shuffled.scores))
    more = {**_references(examples, shuffled.scored), **dict(zip(OF_PERMUTATIONS, values, strict=True))}
    return Reading.of_one(defined.quantile(0.5), n=shuffled.scored.sum(), agreement=torch.nan, **more)


def _references(examples: Examples, scored: Bool[Tensor, " n"]) -> dict[str, float]:
    """The model's accuracy on the scored examples, and the share of the largest class among them."""
    right = (examples.predicted == examples.gold)[scored].double()
    return {
        "model": float(right.mean()) if _has_predictions(examples) else torch.nan,
        "chance": float(examples.gold[scored].bincount().double().max() / scored.sum()) if scored.any() else torch.nan,
    }


def _has_predictions(examples: Examples) -> bool:
    return bool((examples.predicted >= 0).any())


def _norm_scores(examples: Examples, classes: int) -> Float[Tensor, "n c"]:
    """Minus the distance of an example's length from the mean length of each class in the other half of the sample.

    Leaving out only the example would move the mean of its own class away from it, and uninformative lengths would score below
    chance. Distances are in steps of rounding: if all lengths are the same, the largest class is the nearest.
    """
    own = (examples.gold[:, None] == torch.arange(classes)).double()
    of_half = (examples.half[None] == torch.arange(2)[:, None]).double()
    means = (of_half * examples.norms) @ own / (of_half @ own)
    distances = (means[1 - examples.half] - examples.norms[:, None]).abs()
    return own.sum(0) / (2 * len(own)) - (distances / (ROUNDING * examples.norms.mean())).round()


@also_reads("class_cones.examples", parts, within=(-1, 1), across=True)
def examples(**found: ByLayer) -> Iterator[Reading]:
    """The sampled examples nearest to each representative and farthest from it, by the name of the example."""
    for layer, cones in cones_of(**found):
        if cones.examples is None:
            continue
        for kind in (kind for kind in kinds_of(cones) if kind in ("first", "mean")):
            cosines = cones.cosines(kind)
            for number in range(cones.classes):
                for side, sign in (("nearest", -1), ("farthest", 1)):
                    for place, at in enumerate(_first(sign * cosines[:, number], cones.examples.names), 1):
                        known = {"gold": int(cones.examples.gold[at]), "predicted": int(cones.examples.predicted[at])}
                        row = Reading.of_one(cosines[at, number], **known, example=cones.examples.names[at])
                        keys = {"representative": kind, "class": number, "side": side, "place": place}
                        yield row.with_keys(layer=layer, **keys)


def _first(scores: Float[Tensor, " n"], names: Sequence[str]) -> list[int]:
    """The indices of the smallest scores, in steps of ROUNDING; ties, as of duplicate texts, by name."""
    steps: list[float] = (scores / ROUNDING).round().tolist()
    known = [at for at, step in enumerate(steps) if step == step]
    return sorted(known, key=lambda at: (steps[at], names[at]))[:SHOWN]
