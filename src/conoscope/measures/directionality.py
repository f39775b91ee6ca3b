"""Directionality: which subspaces a head reads and writes, and how directional its computation is."""

from collections.abc import Iterator

import torch
from jaxtyping import Float
from torch import Tensor

from conoscope.measures.base import Part, Reading, also_reads, reads
from conoscope.measures.needs import Need
from conoscope.quantities.directionality import MAP_NUMBERS, MAPS, NUMBERS
from conoscope.sums.samples import Constant, Sample
from conoscope.sums.statistics import Moments

SPACES = ("query", "key", "value", "output")
PAIRS = ("query-key", "query-value", "key-value")


def _parts() -> Iterator[Part]:
    for map in MAPS:
        for width in ("head", "whole"):
            needs = {"weights": Need.of(Constant, "map_numbers", map=map, width=width)}
            yield Part({"site": map, "map": map}, width == "head", needs)
    yield Part({"site": "scores", "map": "scores"}, True, {"sentences": Need.of(Sample, "score_numbers")})


def _value_parts() -> Iterator[Part]:
    for map in MAPS:
        yield Part({"site": map, "map": map}, True, {"weights": Need.of(Constant, "map_values", map=map)})


def _angle_parts() -> Iterator[Part]:
    for pair in PAIRS:
        yield Part({"site": pair, "spaces": pair}, True, {"weights": Need.of(Constant, "space_angles", spaces=pair)})


def _head_parts() -> Iterator[Part]:
    for space in SPACES:
        yield Part({"site": space, "space": space}, True, {"weights": Need.of(Constant, "head_overlaps", space=space)})


def _of_weights(value: Float[Tensor, " h"], **more: Tensor) -> Reading:
    return Reading(value, torch.full_like(value, torch.nan), (~value.isnan()).long(), more)


@reads(_parts, within=(1, float("inf")), source="after Bonino et al. 2025, theorem 4.2.1")
def directionality(weights: Constant | None = None, sentences: Sample | None = None) -> Reading:
    """How many directions a head's W_Q W_Kᵀ, W_V W_O and scores Q Kᵀ use: exp of the entropy of their singular values.

    `rank` counts the singular values above rounding, `largest` is s₁, `top_share` s₁² / Σ s², `skew_share` ‖M - Mᵀ‖² / 4‖M‖²,
    `rank_with_transpose` the rank of M + Mᵀ. Without a head: the sum of the heads' maps, `heads_rank` the sum of their ranks.
    """
    if weights is not None:
        found = dict(zip(MAP_NUMBERS, weights.value.unbind(-1), strict=True))
        return _of_weights(found.pop("effective_rank"), **found)
    assert sentences is not None
    each = Moments.of(sentences.values.unflatten(1, (-1, len(NUMBERS))))
    more = {name: each.mean[:, place] for place, name in enumerate(NUMBERS) if place}
    return Reading(each.mean[:, 0], each.sd[:, 0], each.count[:, 0], more)


@also_reads("directionality.singular_values", _value_parts, within=(0, float("inf")))
def singular_values(weights: Constant) -> Iterator[Reading]:
    """The singular values of each head's W_Q W_Kᵀ and W_V W_O, largest first, and the share of Σ s² that each holds."""
    s = weights.value
    shares = s.square() / s.square().sum(-1, keepdim=True)
    for place in range(s.shape[-1]):
        yield _of_weights(s[:, place], share=shares[:, place]).with_keys(place=place + 1)


@also_reads("directionality.angles", _angle_parts, within=(0, 1))
def angles(weights: Constant) -> Reading:
    """How far two spaces that a head reads are one: the mean cos² of their principal angles; the ends in degrees."""
    overlap, smallest, largest = weights.value.unbind(-1)
    return _of_weights(overlap, smallest=smallest, largest=largest)


@also_reads("directionality.heads", _head_parts, within=(0, 1))
def heads(weights: Constant) -> Iterator[Reading]:
    """How far two heads of a layer read, or write, the same space: the mean cos² of the principal angles between them."""
    for other in range(1, len(weights.value)):
        yield _of_weights(weights.value[:other, other]).with_keys(other=other + 1)
