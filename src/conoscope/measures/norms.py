"""Norms: how long the vectors are."""

from collections.abc import Iterator
from dataclasses import replace

import torch
from jaxtyping import Float
from torch import Tensor

from conoscope.measures.base import QUANTILES, Part, Reading, also_reads, reads
from conoscope.measures.needs import Need
from conoscope.sums.grouped import GroupedMoments
from conoscope.sums.statistics import Histogram, Moments

SITES = (("hidden", "whole"), ("query", "head"), ("key", "head"), ("value", "head"))


def _parts() -> Iterator[Part]:
    for site, width in SITES:
        options = {"site": site, "width": width}
        needs = {"each": Need.of(GroupedMoments, "norms", **options), "counts": Need.of(Histogram, "norm_counts", **options)}
        yield Part({"site": site}, width == "head", needs)


@reads(_parts, within=(0, float("inf")), source="Bonino et al. 2025, figure 2")
def vector_norms(each: Moments, counts: Histogram) -> Reading:
    """The mean length of queries, keys, values and hidden states, over tokens, with quantiles read off the histogram."""
    return Reading(each.mean, each.sd, each.count, {name: quantile(counts, q) for name, q in QUANTILES.items()})


def _histogram_parts() -> Iterator[Part]:
    return (replace(part, needs={"counts": part.needs["counts"]}) for part in _parts())


@also_reads("vector_norms.histogram", _histogram_parts, within=(0, 1))
def histogram(counts: Histogram) -> Iterator[Reading]:
    """The share of the vectors whose length lies in each bin, from `low` up to `high`."""
    total = counts.counts.sum(-1)
    none = torch.full(total.shape, torch.nan)
    for place in counts.counts.flatten(0, -2).sum(0).nonzero()[:, 0].tolist():
        low, high = (float(edge) for edge in _bounds(counts)[place])
        here = counts.counts[..., place]
        yield Reading(here.double() / total, none, total, {"count": here}).with_keys(low=low, high=high)


def _bounds(counts: Histogram) -> Float[Tensor, "bins 2"]:
    """The lower and the upper end of each bin."""
    ends, edges = torch.tensor([0.0, torch.inf], dtype=torch.float64), counts.edges.exp2()
    return torch.stack((torch.cat((ends[:1], edges)), torch.cat((edges, ends[1:]))), dim=-1)


def quantile(counts: Histogram, q: float) -> Float[Tensor, " h"]:
    """The q-quantile of a histogram, as if each bin were filled evenly."""
    total = counts.counts.cumsum(-1).double()
    target = q * total[..., -1:]
    place = torch.searchsorted(total, target).clamp_max(total.shape[-1] - 1)
    here = counts.counts.gather(-1, place).double()
    low, high = _bounds(counts)[place[..., 0]].unbind(-1)
    share = ((target - (total.gather(-1, place) - here)) / here)[..., 0]
    return low + share.clamp(0, 1) * (high.where(high.isfinite(), low) - low)
