"""The nearest-cone classifier, its controls, and the examples nearest to each cone."""

from collections.abc import Iterator

import torch
from jaxtyping import Float, Int
from torch import Tensor

from conoscope.measures.base import Reading, also_reads
from conoscope.measures.classes import ByLayer, cones_of, kinds_of, parts
from conoscope.measures.representatives import ROUNDING, Examples, without_itself

SHOWN = 5
"""How many of the nearest and of the farthest examples are named."""


@also_reads("class_cones.nearest", parts, within=(0, 1), across=True)
def nearest(**found: ByLayer) -> Iterator[Reading]:
    """The nearest-cone classifier: accuracy of taking the class whose representative has the largest cosine.

    `agreement` is with the model's answers, `model` the model's own accuracy on the same examples, `chance` the share of
    the largest class. No example is scored with a representative that it helped to make. Controls: `norm`, the nearest
    mean length in place of the nearest direction; `shuffled`, labels that were dealt anew.
    """
    for layer, cones in cones_of(**found):
        if cones.examples is None:
            continue
        rows = [("none", kind, cones.cosines(kind), cones.examples.gold) for kind in kinds_of(cones)]
        rows += [("norm", "mean", _norm_scores(cones.examples, cones.classes), cones.examples.gold)]
        rows += [("shuffled", "mean", *_shuffled(cones.examples, cones.classes))]
        for control, kind, scores, gold in rows:
            yield _scored(scores, gold, cones.examples).with_keys(layer=layer, representative=kind, control=control)


def _scored(scores: Float[Tensor, "n c"], gold: Int[Tensor, " n"], examples: Examples) -> Reading:
    # Of a representative that is an example its own row is out; a class without a representative is never the nearest.
    there = ~scores.gather(1, gold[:, None])[:, 0].isnan()
    chosen = scores.nan_to_num(-torch.inf).argmax(-1)
    right, agrees = (chosen == gold)[there].double(), (chosen == examples.predicted)[there].double()
    answers = bool((examples.predicted >= 0).any())
    more = {
        "agreement": float(agrees.mean()) if answers else torch.nan,
        "model": float((examples.predicted == examples.gold)[there].double().mean()) if answers else torch.nan,
        "chance": float(gold[there].bincount().double().max() / there.sum()) if there.any() else torch.nan,
    }
    return Reading.of_one(right.mean(), right.std() if len(right) > 1 else torch.nan, len(right), **more)


def _norm_scores(examples: Examples, classes: int) -> Float[Tensor, "n c"]:
    """Minus the distance of an example's length from the mean length of each class, itself left out.

    In steps of rounding: where all lengths are the same the largest class is the nearest, by chance.
    """
    own = (examples.gold[:, None] == torch.arange(classes)).double()
    sums, counts = (own * examples.norms[:, None]).sum(0), own.sum(0)
    distances = ((sums - own * examples.norms[:, None]) / (counts - own) - examples.norms[:, None]).abs()
    return counts / (2 * counts.sum()) - (distances / (ROUNDING * examples.norms.mean())).round()


def _shuffled(examples: Examples, classes: int) -> tuple[Float[Tensor, "n c"], Int[Tensor, " n"]]:
    """Cosines with the mean directions of labels dealt anew, and those labels."""
    order = torch.randperm(len(examples.gold), generator=torch.Generator().manual_seed(0))
    gold = examples.gold[order]
    sums = torch.zeros(classes, examples.units.shape[1], dtype=torch.float64).index_add_(0, gold, examples.units)
    return without_itself(examples.units, gold, sums), gold


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
                    scores = (sign * cosines[:, number]).nan_to_num(torch.inf)
                    for place, at in enumerate(scores.argsort()[:SHOWN].tolist(), 1):
                        if scores[at].isfinite():
                            known = {"gold": int(cones.examples.gold[at]), "predicted": int(cones.examples.predicted[at])}
                            row = Reading.of_one(cosines[at, number], **known, example=cones.examples.names[at])
                            keys = {"representative": kind, "class": number, "side": side, "place": place}
                            yield row.with_keys(layer=layer, **keys)
