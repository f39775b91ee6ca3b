"""Mixing: how much of a token's new vector comes from other tokens."""

from collections.abc import Iterator
from math import inf

import torch

from conoscope.measures.base import Part, Reading, also_reads, reads
from conoscope.measures.needs import Need
from conoscope.quantities.mixing import MIXING
from conoscope.sums.grouped import GroupedMoments
from conoscope.sums.samples import Constant
from conoscope.sums.statistics import Moments, Range

TOKENS = ("drawn", "all")


def _parts(tokens: str) -> Iterator[Part]:
    needs = {name: Need.of(kind, "mixing", tokens=tokens) for name, kind in (("each", GroupedMoments), ("ends", Range))}
    yield Part({"tokens": tokens}, False, {**needs, "sizes": Need.of(GroupedMoments, "kind_counts")})


@reads(_parts, within=(0, 1), source="Kobayashi et al. 2021", across=True, tokens=TOKENS)
def mixing(each: dict[int, Moments], ends: dict[int, Range], sizes: dict[int, Moments]) -> Iterator[Reading]:
    """The mixing ratio: ‖what comes from other tokens‖ / (that + ‖what is kept of the token‖), mean over tokens.

    `method`: `attn_w` of attention weights, 1 - α_ii; `attn_n` of norms, with Σ_j≠i Σ_h αf(x_j) mixed in and Σ_h αf(x_i) kept;
    `attnres_w` and `attnres_n` with the residual x_i kept as well; `attnresln_n` after the following normalisation. `kind`: the
    kind of tokens; -1 for all, each kind weighted by its number of tokens. `low` and `high`: the smallest and largest value.
    """
    many = next(iter(sizes.values()))
    totals = (many.mean * many.count).round()
    for layer, here in each.items():
        for at, method in enumerate(MIXING):
            keys = {"layer": layer, "method": method}
            for kind in here.count[:, at].nonzero()[:, 0].tolist():
                bounds = {"low": float(ends[layer].low[kind, at]), "high": float(ends[layer].high[kind, at])}
                row = Reading.of_one(here.mean[kind, at], here.sd[kind, at], here.count[kind, at], **bounds)
                yield row.with_keys(**keys, kind=kind)
            if (counted := here.count[:, at] > 0).any():
                yield _of_all(here, ends[layer], totals * counted, at).with_keys(**keys, kind=-1)


def _of_all(here: Moments, ends: Range, totals: torch.Tensor, at: int) -> Reading:
    """The mean over kinds, weighted by their numbers of tokens; n is the number of sampled tokens."""
    value = (here.mean[:, at] * totals).sum() / totals.sum()
    bounds = {"low": float(ends.low[:, at].min()), "high": float(ends.high[:, at].max())}
    return Reading.of_one(value, n=here.count[:, at].sum(), **bounds)


def _expansion_parts(tokens: str) -> Iterator[Part]:
    yield Part({}, False, {"rates": Need.of(Constant, "expansion")})


@also_reads("mixing.expansion", _expansion_parts, within=(0, inf))
def expansion(rates: Constant) -> Reading:
    """The expansion rate of f: by what factor x ↦ (x W_V + b_V) W_O + b_O lengthens vectors, from the weights alone.

    ‖(W_V b_V)(W_O b_O)‖ / √(d + 1). `published` is the same as the authors' code builds it, with b_O out of place.
    """
    value, published = rates.value.tolist()
    return Reading.of_one(value, published=published)
