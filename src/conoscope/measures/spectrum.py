"""Spectrum: over how many directions the vectors of a corpus spread."""

from collections.abc import Iterator

import torch
from jaxtyping import Float
from torch import Tensor

from conoscope.measures.base import Part, Reading, reads
from conoscope.measures.needs import Need
from conoscope.sums.grouped import GroupedMoments
from conoscope.sums.numeric import entropy_rank
from conoscope.sums.statistics import Gram, Moments

SITES = (("hidden", "whole"), ("query", "head"), ("key", "head"), ("value", "head"))
MASKS = ("real", "content")
TOKENS = ("drawn", "all")
FIRST = (1, 2, 5, 10, 20, 50)
"""The numbers of directions whose share `top_directions` gives."""


def _parts(mask: str, tokens: str) -> Iterator[Part]:
    for site, width in SITES:
        needs = {"products": Need.of(Gram, "vectors", site=site, width=width, mask=mask, tokens=tokens)}
        yield Part({"site": site, "mask": mask, "tokens": tokens}, width == "head", needs)


def _reading(value: Float[Tensor, " h"], products: Gram, **more: Tensor) -> Reading:
    width = torch.full_like(products.count, products.products.shape[-1])
    count = products.count.where(~value.isnan(), 0)
    return Reading(value, torch.full_like(value, torch.nan), count, {"width": width, **more})


@reads(_parts, within=(1, float("inf")), source="Roy and Vetterli 2007; Fosse et al. 2022", mask=MASKS, tokens=TOKENS)
def effective_rank(products: Gram) -> Reading:
    """How many directions are in use: exp of the entropy of the singular values of all vectors, one a row.

    p_k = s_k / Σ s, no centring. `rank` counts the singular values above rounding. Over at most 16 tokens of each sentence
    (8 for heads), sampled by hash, or over all with `tokens=all`.
    """
    spectrum = products.spectrum
    return _reading(entropy_rank(spectrum), products, rank=(spectrum > 0).sum(-1))


@reads(_parts, within=(1, float("inf")), source="participation ratio of the principal components", mask=MASKS, tokens=TOKENS)
def participation_ratio(products: Gram) -> Reading:
    """How many directions share the squared length: (Σ s²)² / Σ s⁴; 1 for one direction, d for all alike."""
    energy = products.spectrum.square()
    return _reading(energy.sum(-1).square() / energy.square().sum(-1), products)


@reads(_parts, within=(0, 1), source="share of variance of the first principal components", mask=MASKS, tokens=TOKENS)
def top_directions(products: Gram) -> Iterator[Reading]:
    """The share of the squared length that the first k directions hold: Σ_{j≤k} s_j² / Σ s²."""
    energy = products.spectrum.square()
    shares = energy.cumsum(-1) / energy.sum(-1, keepdim=True)
    for first in FIRST:
        if first <= shares.shape[-1]:
            yield _reading(shares[..., first - 1], products).with_keys(first=first)


def _variance_parts(mask: str) -> Iterator[Part]:
    for site, width in SITES:
        needs = {"each": Need.of(GroupedMoments, "variances", site=site, width=width, mask=mask)}
        yield Part({"site": site, "mask": mask}, width == "head", needs)


@reads(_variance_parts, within=(0, float("inf")), source="Fosse et al. 2022", mask=MASKS)
def variance(each: Moments) -> Reading:
    """The mean over sentences of the variance of a sentence's vectors: the trace of their covariance, with n - 1."""
    return Reading(each.mean, each.sd, each.count, {"undefined": each.undefined})
