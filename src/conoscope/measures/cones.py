"""Cones: how much the vectors of a sentence point one way."""

from collections.abc import Iterator

from conoscope.measures.base import Part, Reading, reads
from conoscope.quantities import MASKS
from conoscope.statistics import Directions, Moments
from conoscope.tally import Need

PER_HEAD = ("query", "key", "value")


def _parts(mask: str) -> Iterator[Part]:
    for site, width in (("hidden", "whole"), *((site, width) for site in PER_HEAD for width in ("head", "whole"))):
        options = {"site": site, "width": width, "mask": mask}
        needs = {"each": Need.of(Moments, "sim", **options), "pooled": Need.of(Directions, "directions", **options)}
        yield Part({"site": site, "mask": mask}, width == "head", needs)


@reads(_parts, within=(-1, 1), source="Fosse et al. 2023", mask=MASKS)
def sim(each: Moments, pooled: Directions) -> Reading:
    """Conicity: the mean over sentences of the mean cosine between the vectors of a sentence.

    SIM = (‖Σu‖² - n) / (n (n - 1)) with u the unit vectors of one sentence. `zeros` counts the zero vectors left
    out, `undefined` the sentences with fewer than two vectors, and `pooled` is SIM of all sentences' vectors at once.
    """
    more = {"undefined": each.undefined, "zeros": pooled.zeros, "pooled": pooled.sim}
    return Reading(each.mean, each.sd, each.count, more)
