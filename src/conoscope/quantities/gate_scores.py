"""Scores of whole attention maps, by which heads are classified as gates: pure functions of maps and masks."""

from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Bool, Float, Int, Shaped
from torch import Tensor

from conoscope.quantities.blocks import best_blocks
from conoscope.sums.numeric import entropy_of, normalized

GATE_SCORES = (
    "special", "entropy", "column", "columns", "spread", "apart", "backward", "forward", "previous", "next",
    "first_share", "cluster", "cluster_beyond", "blocks", "strong", "peak", "k90", "length",
)  # fmt: skip
"""The scores that `gate_scores` computes for each map, in this order."""
PLACE = ("row", "key")
"""The position of a map's strongest strong cell, after the scores; meaningless if there is no strong cell."""
STRONG = 0.3
"""A cell is strong from this weight on."""
ROUNDING = 1e-6
"""Weights and scores that differ by no more count as equal: the error of single precision."""
CONTEXT, FEW, MASS = 5, 3, 0.9
"""How many neighbours on a side are context, how many columns are few, and the mass that `k90` counts keys for."""


@dataclass(frozen=True)
class Kept:
    """Maps of the kept tokens only, moved to the front, so that nothing depends on padding; 0 elsewhere.

    `weights` are unchanged; `shares` add up to 1 in every row that has any weight; `even` spreads each row evenly over the keys
    visible to it. `rows`: the rows with weight on a kept token. `keys`: the number of kept keys visible to each row. `order`: the
    original positions.
    """

    weights: Float[Tensor, "n h t t"]
    shares: Float[Tensor, "n h t t"]
    even: Float[Tensor, "n 1 t t"]
    rows: Bool[Tensor, "n h t"]
    keys: Int[Tensor, "n t"]
    length: Int[Tensor, " n"]
    order: Int[Tensor, "n t"]

    @classmethod
    def of(cls, maps: Float[Tensor, "n h t t"], keep: Bool[Tensor, "n t"], visible: Bool[Tensor, "n t t"]) -> "Kept":
        """The kept part of `maps`, by the tokens to keep and the keys visible to each query."""
        length = keep.sum(-1)
        order = (~keep).byte().argsort(dim=-1, stable=True)
        # A GPU would wait for the length; places beyond it are 0 and count nowhere.
        order = order[:, : int(length.max())] if keep.device.type == "cpu" else order
        here = keep.gather(1, order)
        seen = _moved(visible[:, None], order) & (here[:, :, None] & here[:, None])[:, None]
        weights = _moved(maps, order).where(seen, 0.0)
        keys = seen.sum(-1, keepdim=True)
        total = weights.sum(-1, keepdim=True)
        shares = weights / total.where(total > 0, 1.0)
        return cls(weights, shares, seen.to(maps.dtype) / keys.clamp_min(1), total[..., 0] > 0, keys[:, 0, :, 0], length, order)


def _moved(x: Shaped[Tensor, "n h t t"], order: Int[Tensor, "n s"]) -> Shaped[Tensor, "n h s s"]:
    """Rows and columns reordered."""
    size = order.shape[1]
    if x.device.type == "cpu" and torch.equal(order, torch.arange(size).expand_as(order)):
        return x[..., :size, :size]
    return x.take_along_dim(order[:, None, :, None], 2).take_along_dim(order[:, None, None], 3)


def gate_scores(
    maps: Float[Tensor, "n h t t"],
    keep: Bool[Tensor, "n t"],
    special: Bool[Tensor, "n t"],
    visible: Bool[Tensor, "n t t"],
) -> Float[Tensor, "n h m"]:
    """The scores that GATE_SCORES names, then PLACE, of each map; NaN for what is undefined without weight on kept tokens.

    `keep`: the tokens of the text, and [CLS]. `special`: [CLS], [SEP] and the like. `visible`: the keys visible to each query.
    """
    kept = Kept.of(maps, keep, visible)
    rows = kept.rows
    scores = {"special": _mean(_mass_on(maps, special), (keep & (visible & keep[:, None]).any(-1))[:, None])}
    several = rows & (kept.keys > 1)[:, None]
    scores["entropy"] = _mean(normalized(entropy_of(kept.shares), kept.keys[:, None]), several)
    scores |= _columns(kept) | _bands(kept) | _blocks(kept) | _cells(kept, special)
    scores["first_share"] = _first_share(kept.shares)
    scores["k90"] = _fewest(kept.shares).where(rows, torch.nan).nanquantile(0.5, dim=-1)
    scores["length"] = kept.length.to(maps.dtype)[:, None].expand(rows.shape[:2])
    return torch.stack([scores[name] for name in (*GATE_SCORES, *PLACE)], dim=-1)


def _mean(x: Float[Tensor, "n h t"], keep: Bool[Tensor, "n #h t"]) -> Float[Tensor, "n h"]:
    """The mean over the rows that count; NaN where none does."""
    return x.where(keep, 0.0).sum(-1) / keep.sum(-1)


def _mass_on(maps: Float[Tensor, "n h t t"], keys: Bool[Tensor, "n t"]) -> Float[Tensor, "n h t"]:
    return (maps @ keys[:, None, :, None].to(maps.dtype))[..., 0]


def _columns(kept: Kept) -> dict[str, Float[Tensor, "n h"]]:
    """How much of the weight few columns hold, and how far the rows are from the mean row."""
    count = kept.rows.sum(-1, keepdim=True)
    mean = kept.shares.sum(-2) / count
    even = (kept.rows.to(mean.dtype)[:, :, None] @ kept.even)[:, :, 0] / count
    top = mean.topk(min(FEW, mean.shape[-1]), dim=-1).values
    apart = (kept.shares - mean[:, :, None]).abs_().sum(-1) / 2
    return {
        "column": top[..., 0],
        "columns": top.sum(-1),
        "spread": 1 + kept.length[:, None] * (mean - even).amax(-1),
        "apart": _mean(apart, kept.rows),
    }


def _bands(kept: Kept) -> dict[str, Float[Tensor, "n h"]]:
    """The mass on neighbours: on the adjacent one as it is, and on CONTEXT of them relative to even rows."""
    found = {}
    for name, near, side in (("backward", "previous", -1), ("forward", "next", 1)):
        (adjacent, mass), (even_adjacent, even) = (_band(x, CONTEXT * side) for x in (kept.shares, kept.even))
        defined = kept.rows & (even > 0)
        whole, by_chance = _mean(mass, defined), _mean(even.expand_as(mass), defined)
        found[name] = (whole - by_chance) / (1 - by_chance)
        found[near] = _mean(adjacent, kept.rows & (even_adjacent > 0))
    return found


def _band(x: Float[Tensor, "n h t t"], reach: int) -> tuple[Float[Tensor, "n h t"], Float[Tensor, "n h t"]]:
    """The mass of each row on its next neighbour, and on its next `reach` neighbours; the previous ones if `reach` is
    negative."""
    total, side = x.new_zeros(x.shape[:-1]), 1 if reach > 0 else -1
    adjacent = total
    for step in range(1, min(abs(reach), x.shape[-1] - 1) + 1):
        diagonal = x.diagonal(offset=side * step, dim1=-2, dim2=-1)
        (total[..., :-step] if side > 0 else total[..., step:]).add_(diagonal)
        adjacent = total.clone() if step == 1 else adjacent
    return adjacent, total


def _blocks(kept: Kept) -> dict[str, Float[Tensor, "n h"]]:
    """What the best blocks hold beyond an even map, and beyond what the distance of query and key alone predicts."""
    most, count, sizes = best_blocks(kept.shares - kept.even * kept.rows[..., None], kept.length)
    total = kept.rows.sum(-1)
    by_size = torch.nn.functional.pad(_by_distance(kept), (1, 0)).gather(-1, sizes).sum(-1)
    return {
        "cluster": most / total,
        "cluster_beyond": _held(kept.shares, sizes) / total - by_size / kept.length[:, None],
        "blocks": count.to(most.dtype).where(total > 0, torch.nan),
    }


def _held(x: Float[Tensor, "n h t t"], sizes: Int[Tensor, "n h k"]) -> Float[Tensor, "n h"]:
    """The sum of a map within its blocks; `sizes` lists them from the first to the last."""
    ends, places = sizes.cumsum(-1), torch.arange(x.shape[-1], device=x.device)
    block = torch.searchsorted(ends, places.expand(x.shape[:-1]).contiguous(), right=True).clamp_max(sizes.shape[-1] - 1)
    up_to = torch.nn.functional.pad(x.cumsum(-1), (1, 0))
    end = ends.gather(-1, block)
    begin = end - sizes.gather(-1, block)
    return (up_to.gather(-1, end[..., None]) - up_to.gather(-1, begin[..., None])).sum((-1, -2))


def _by_distance(kept: Kept) -> Float[Tensor, "n h t"]:
    """What a block of 1, 2, ... tokens would hold if each weight were the mean of those at the same distance."""
    mean = _diagonals(kept.shares) / _diagonals((kept.even > 0).to(kept.even.dtype)).clamp_min(1)
    size = kept.shares.shape[-1]
    both = mean[..., size - 1 :] + mean[..., :size].flip(-1)
    both[..., 0] /= 2
    return both.cumsum(-1).cumsum(-1)


def _diagonals(x: Float[Tensor, "n h t t"]) -> Float[Tensor, "n h d"]:
    """The sum of each diagonal, from the lower left corner's to the upper right corner's."""
    size = x.shape[-1]
    # Refolding into longer rows shifts each row by one against the row before: diagonals become columns.
    shifted = torch.nn.functional.pad(x.flip(-2), (0, size)).flatten(-2)[..., :-size]
    rows: Tensor = shifted.unflatten(-1, (size, 2 * size - 1))
    return rows.sum(-2)


def _cells(kept: Kept, special: Bool[Tensor, "n all"]) -> dict[str, Float[Tensor, "n h"]]:
    """Scores of strong cells, whose key is a word: the share of rows that have one, the largest weight on a word, and the
    position of the strong cell farthest above an even row.

    A row with few visible keys always has large weights, so a strong cell must also exceed twice the weight of an even row.
    """
    on_words = kept.weights.masked_fill(special.gather(1, kept.order)[:, None, None], 0.0)
    largest, size = on_words.amax(-1), kept.weights.shape[-1]
    strong = (on_words >= STRONG - ROUNDING) & (on_words * kept.keys[:, None, :, None] > 2 + ROUNDING)
    above = (on_words - kept.even).masked_fill(~strong, -torch.inf).flatten(-2)
    # Of equally strong cells the first, whatever their rounding.
    place = (above >= above.amax(-1, keepdim=True) - ROUNDING).byte().argmax(-1)
    numbers = {"row": (place // size).to(largest.dtype), "key": (place % size).to(largest.dtype)}
    rows = _mean(strong.any(-1).to(largest.dtype), (kept.keys > 0)[:, None])
    return {"strong": rows, "peak": largest.amax(-1), **numbers}


def _first_share(x: Float[Tensor, "n h t t"], vectors: int = 8, rounds: int = 1, steps: int = 4) -> Float[Tensor, "n h"]:
    """s₁² / Σ s² of the singular values, by subspace iteration from fixed vectors."""
    x = x / torch.linalg.matrix_norm(x, keepdim=True)
    places, numbers = (torch.arange(size, device=x.device, dtype=x.dtype) for size in (x.shape[-1] + 1, vectors))
    basis = (0.7 * (places[1:, None] * numbers)).cos().expand(*x.shape[:2], -1, -1)
    for _ in range(rounds):
        for _ in range(steps):
            # xᵀ times a few columns takes ten times as long as a few rows times x.
            basis = x @ (basis.mT @ x).mT
        basis = torch.linalg.qr(basis.nan_to_num(0.0)).Q
    projected = basis.mT @ x
    first = _largest_eigenvalue((projected @ projected.mT).nan_to_num(0.0))
    return first.where(~x[..., 0, 0].isnan(), torch.nan)


def _largest_eigenvalue(x: Float[Tensor, "*s k k"], squarings: int = 4) -> Float[Tensor, "*s"]:
    """The largest eigenvalue of a positive matrix, by squaring it until only the first eigenvectors are left.

    LAPACK's would make a GPU wait. Eigenvalues that differ so little that they are not told apart differ by less than rounding:
    by about 1 / 2^24 of them after 24 squarings, in single precision, and by 1 / 2^48 after 48.
    """
    flat = x.flatten(0, -3)
    power = flat
    for _ in range(12 if x.dtype == torch.float64 else 6):
        power = _of_trace_one(power)
        # Of k eigenvalues that add up to 1 the largest is at least 1 / k, and its 16th power far above the smallest number.
        for _ in range(squarings):
            power = torch.bmm(power, power)
    return (flat * _of_trace_one(power)).sum((-2, -1)).view(x.shape[:-2])


def _of_trace_one(x: Float[Tensor, "n k k"]) -> Float[Tensor, "n k k"]:
    return x / x.diagonal(dim1=-2, dim2=-1).sum(-1)[:, None, None].clamp_min(torch.finfo(x.dtype).tiny)


def _fewest(shares: Float[Tensor, "n h t t"]) -> Float[Tensor, "n h t"]:
    """The smallest number of keys whose weights reach .9 of a row."""
    # NumPy sorts thirty times as fast as torch does on a CPU.
    ordered = torch.from_numpy(np.sort(shares.numpy(), -1)) if shares.device.type == "cpu" else shares.sort(-1).values
    left_out = (ordered.cumsum(-1) <= 1 - MASS + 1e-5).sum(-1)
    return (shares.shape[-1] - left_out).to(shares.dtype)
