"""Cones: how much the vectors of a sentence point one way."""

from collections.abc import Iterator

from jaxtyping import Float
from torch import Tensor

from conoscope.measures.base import Part, Reading, reads
from conoscope.measures.needs import Need
from conoscope.quantities import MASKS, resolve_mask
from conoscope.quantities.cones import CONES
from conoscope.sums.grouped import GroupedMoments
from conoscope.sums.statistics import Directions, Moments

BY_HEAD = ("query", "key", "value")
SITES = (("hidden", "whole"), ("output", "whole"), *((site, width) for site in BY_HEAD for width in ("head", "whole")))


def _parts(mask: str) -> Iterator[Part]:
    for site, width in SITES:
        options = {"site": site, "width": width, "mask": resolve_mask(mask, site)}
        needs = {
            "each": Need.of(GroupedMoments, "cones", **options),
            "pooled": Need.of(Directions, "directions", **options),
            "random": Need.of(Directions, "random_vectors", **options),
        }
        yield Part({"site": site, "mask": mask}, width == "head", needs)


def _of_sentences(each: Moments, name: str, more: dict[str, Tensor]) -> Reading:
    """The mean over sentences of one of CONES."""
    at = CONES.index(name)
    mean, sd, count = each.mean[..., at], each.sd[..., at], each.count[..., at]
    return Reading(mean, sd, count, {"undefined": each.undefined[..., at], **more})


def _against(random: Directions, value: Float[Tensor, " h"]) -> dict[str, Tensor]:
    """`baseline`, the mean cosine of random pairs (one vector a sentence), and `adjusted`, the value minus that."""
    return {"baseline": random.sim, "adjusted": value - random.sim}


@reads(_parts, within=(-1, 1), source="Fosse et al. 2023", mask=MASKS)
def sim(each: Moments, pooled: Directions, random: Directions) -> Reading:
    """Conicity: the mean over sentences of the mean cosine between the vectors of a sentence.

    SIM = (‖Σu‖² - n) / (n (n - 1)) with u the unit vectors of one sentence. `zeros` counts the zero vectors left
    out, `undefined` the sentences with fewer than two vectors, and `pooled` is SIM of all sentences' vectors at once.
    `baseline` is the mean cosine of vectors of different sentences, and `adjusted` the value minus that.
    """
    value = each.mean[..., CONES.index("sim")]
    return _of_sentences(each, "sim", {"zeros": pooled.zeros, "pooled": pooled.sim, **_against(random, value)})


@reads(_parts, within=(-1, 1), source="Ethayarajh 2019", mask=MASKS)
def intra_sim(each: Moments, pooled: Directions, random: Directions) -> Reading:
    """The mean over sentences of the mean cosine between a sentence's vectors and their mean vector.

    `baseline` and `adjusted` are as in `sim`: what any two words share, and the value minus that.
    """
    value = each.mean[..., CONES.index("intra_sim")]
    return _of_sentences(each, "intra_sim", {"zeros": pooled.zeros, **_against(random, value)})


INDEX_SITES = (("input", "whole"), ("context", "head"), ("output", "whole"), ("hidden", "whole"))
SUMS = ("units", "vectors")


def _index_parts(mask: str, sum: str) -> Iterator[Part]:
    for site, width in INDEX_SITES:
        needs = {"each": Need.of(GroupedMoments, "cones", site=site, width=width, mask=mask)}
        yield Part({"site": site, "mask": mask, "sum": sum}, width == "head", needs, {"sum": sum})


@reads(_index_parts, within=(0, float("inf")), source="Bonino et al. 2025", mask=("real", "content"), sum=SUMS)
def cone_index(each: Moments, sum: str) -> Reading:
    """The length of the sum of a sentence's unit vectors: n where all point one way, about √n where they are random.

    I = ‖Σu‖ = √(n + n (n - 1) SIM). `share` is I / n, `sim` the SIM of the same vectors. With `sum=vectors` it is the
    length of the sum of the vectors as they are, ‖Σx‖.
    """
    at = {name: each.mean[..., place] for place, name in enumerate(CONES)}
    return _of_sentences(each, "cone_index" if sum == "units" else "sum_norm", {"share": at["cone_share"], "sim": at["sim"]})
