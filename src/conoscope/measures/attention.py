"""Attention: how the weights are spread."""

from collections.abc import Iterator

from conoscope.measures.base import Part, Reading, reads
from conoscope.measures.needs import Need
from conoscope.quantities.attention import ROWS
from conoscope.sums.statistics import Moments


def _parts() -> Iterator[Part]:
    for row in ROWS:
        yield Part({"row": row}, True, {"each": Need.of(Moments, "attention_entropy", row=row)})


@reads(_parts, within=(0, 1), source="Nguyen et al. 2022; Fosse et al. 2023")
def attention_entropy(each: Moments) -> Reading:
    """Entropy of the attention weights, divided by log n: 1 is uniform, 0 is all on one token.

    n is the number of keys visible to a row. Row `all` is the mean over a sentence's rows, `cls` the row of the classifying
    token, `cls_to_others` that row without the token itself, rescaled to sum to 1.
    """
    return Reading(each.mean, each.sd, each.count, {"undefined": each.undefined})
