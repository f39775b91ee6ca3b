"""Attention: how the weights are spread."""

from collections.abc import Iterator

from conoscope.measures.base import Part, Reading, reads
from conoscope.measures.needs import Need
from conoscope.quantities.attention import ROWS
from conoscope.sums.grouped import GroupedMoments
from conoscope.sums.statistics import Moments


def _parts(softmax: str) -> Iterator[Part]:
    if softmax == "twice":
        yield Part({"row": "cls"}, True, {"each": Need.of(GroupedMoments, "softmaxed_entropy")})
        return
    for row in ROWS:
        yield Part({"row": row}, True, {"each": Need.of(GroupedMoments, "attention_entropy", row=row)})


@reads(_parts, within=(0, 1), source="Nguyen et al. 2022; Fosse et al. 2023", softmax=("once", "twice"))
def attention_entropy(each: Moments) -> Reading:
    """Entropy of the attention weights, divided by log n: 1 is uniform, 0 is all on one token.

    n is the number of keys visible to a row. Row `all` is the mean over a sentence's rows, `cls` the row of the classifying
    token, `cls_to_others` that row without the token itself, rescaled to sum to 1. With `softmax=twice` it is the entropy of
    row `cls` after a second softmax over all n tokens of the sentence, as in earlier code of Fosse et al.
    """
    return Reading(each.mean, each.sd, each.count, {"undefined": each.undefined})
