"""Class maps: the mean attention map of a head, for each class."""

from collections.abc import Iterator

from conoscope.measures.base import Part, Reading, reads
from conoscope.measures.needs import Need
from conoscope.quantities.class_maps import heads_of
from conoscope.sums.samples import ByKey
from conoscope.sums.statistics import Moments

THETA = 0.01
"""Mean weights below this are left out."""
HEADS = ("1.1", "LAYER.HEAD+...")


def _parts(heads: str) -> Iterator[Part]:
    yield Part({}, False, {"by_class": Need.of(ByKey, "class_maps", heads=heads)}, {"heads": heads})


@reads(_parts, within=(0, 1), source="Bonino et al. 2025", labels=True, across=True, on_request=True, heads=HEADS)
def class_maps(by_class: dict[int, ByKey], heads: str) -> Iterator[Reading]:
    """The mean attention map of the named heads over the correctly classified examples of each class.

    One row for each query and key, counted from 0, of the first 128 tokens, whose mean weight is at least .01; [CLS] is kept,
    the first separator and all that follows count as 0. Useful only if texts are alike position by position, as genes are.
    """
    for layer, maps in by_class.items():
        for label, moments in sorted(maps.parts.items()):
            assert isinstance(moments, Moments)
            for number, head in enumerate(heads_of(heads)[layer]):
                mean = moments.mean[number]
                query, key = (mean >= THETA).nonzero(as_tuple=True)
                value, sd, n = (x[number][query, key] for x in (moments.mean, moments.sd, moments.count))
                keys = {"layer": layer, "head": head, "class": int(label)}
                yield Reading(value, sd, n, {"query": query, "key": key}).with_keys(**keys)
