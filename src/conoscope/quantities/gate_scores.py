"""Scores of whole attention maps, from which it is told what kind of gate a head is: pure functions of maps and masks."""

from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Bool, Float, Int, Shaped
from torch import Tensor

from conoscope.looks import entropy_of
from conoscope.quantities.attention import normalized
from conoscope.quantities.blocks import best_blocks

GATE_SCORES = (
    "special", "entropy", "column", "columns", "spread", "apart", "backward", "forward", "previous", "next",
    "first_share", "cluster", "cluster_beyond", "blocks", "strong", "peak", "k90", "length",
)  # fmt: skip
"""What `gate_scores` tells of each map, in this order."""
PLACE = ("row", "key")
"""Where the strongest of a map's strong cells stands, told after the scores; without one it means nothing."""
STRONG = 0.3
"""A cell from this weight on is strong."""
ROUNDING = 1e-6
"""Weights and scores that differ by no more are equal: what is left of single precision."""
CONTEXT, FEW, MASS = 5, 3, 0.9
"""How many neighbours on a side are context, how many columns are few, and what mass the fewest keys are counted for."""


@dataclass(frozen=True)
class Kept:
    """Maps with the kept tokens alone, moved together, so that nothing depends on padding; 0 elsewhere.

    `weights` are as they were, `shares` add up to 1 in every row that has any, and `even` is the map that spreads each row
    over all the keys that it may see. `rows` are those with any weight on a token that is kept, `keys` how many of them a row
    may see, and `order` says where they stood.
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
        """Of these maps, of which query may see which key, and of the tokens to keep."""
        length = keep.sum(-1)
        order = (~keep).byte().argsort(dim=-1, stable=True)[:, : int(length.max())]
        here = keep.gather(1, order)
        seen = _moved(visible[:, None], order) & (here[:, :, None] & here[:, None])[:, None]
        weights = _moved(maps, order).where(seen, 0.0)
        keys = seen.sum(-1, keepdim=True)
        total = weights.sum(-1, keepdim=True)
        shares = weights / total.where(total > 0, 1.0)
        return cls(weights, shares, seen.to(maps.dtype) / keys.clamp_min(1), total[..., 0] > 0, keys[:, 0, :, 0], length, order)


def _moved(x: Shaped[Tensor, "n h t t"], order: Int[Tensor, "n s"]) -> Shaped[Tensor, "n h s s"]:
    """Rows and columns in this order."""
    size = order.shape[1]
    if torch.equal(order, torch.arange(size, device=order.device).expand_as(order)):
        return x[..., :size, :size]
    return x.take_along_dim(order[:, None, :, None], 2).take_along_dim(order[:, None, None], 3)


def gate_scores(
    maps: Float[Tensor, "n h t t"],
    keep: Bool[Tensor, "n t"],
    special: Bool[Tensor, "n t"],
    visible: Bool[Tensor, "n t t"],
) -> Float[Tensor, "n h m"]:
    """What GATE_SCORES names, then PLACE, of each map; NaN for what a map without weight on kept tokens has not.

    `keep`: the tokens of the text, and [CLS]. `special`: [CLS], [SEP] and their like. `visible`: which keys a query may see.
    """
    kept = Kept.of(maps, keep, visible)
    rows = kept.rows
    found = {"special": _mean(_mass_on(maps, special), (keep & (visible & keep[:, None]).any(-1))[:, None])}
    several = rows & (kept.keys > 1)[:, None]
    found["entropy"] = _mean(normalized(entropy_of(kept.shares), kept.keys[:, None]), several)
    found |= _columns(kept) | _bands(kept) | _blocks(kept) | _cells(kept, special)
    found["first_share"] = _first_share(kept.shares)
    found["k90"] = _fewest(kept.shares).where(rows, torch.nan).nanquantile(0.5, dim=-1)
    found["length"] = kept.length.to(maps.dtype)[:, None].expand(rows.shape[:2])
    return torch.stack([found[name] for name in (*GATE_SCORES, *PLACE)], dim=-1)


def _mean(x: Float[Tensor, "n h t"], keep: Bool[Tensor, "n #h t"]) -> Float[Tensor, "n h"]:
    """Over the rows that count; NaN where none does."""
    return x.where(keep, 0.0).sum(-1) / keep.sum(-1)


def _mass_on(maps: Float[Tensor, "n h t t"], keys: Bool[Tensor, "n t"]) -> Float[Tensor, "n h t"]:
    return (maps @ keys[:, None, :, None].to(maps.dtype))[..., 0]


def _columns(kept: Kept) -> dict[str, Float[Tensor, "n h"]]:
    """How much of the rows few columns carry, and how far the rows are from the mean row."""
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
    """The mass on neighbours: as it is on the next one, and beyond that of even rows on several."""
    found = {}
    for name, near, side in (("backward", "previous", -1), ("forward", "next", 1)):
        mass, even = _band(kept.shares, CONTEXT * side), _band(kept.even, CONTEXT * side)
        there = kept.rows & (even > 0)
        whole, by_chance = _mean(mass, there), _mean(even.expand_as(mass), there)
        found[name] = (whole - by_chance) / (1 - by_chance)
        found[near] = _mean(_band(kept.shares, side), kept.rows & (_band(kept.even, side) > 0))
    return found


def _band(x: Float[Tensor, "n h t t"], reach: int) -> Float[Tensor, "n h t"]:
    """What each row has on so many neighbours: those before it where `reach` is negative."""
    total, side = x.new_zeros(x.shape[:-1]), 1 if reach > 0 else -1
    for step in range(1, min(abs(reach), x.shape[-1] - 1) + 1):
        diagonal = x.diagonal(offset=side * step, dim1=-2, dim2=-1)
        (total[..., :-step] if side > 0 else total[..., step:]).add_(diagonal)
    return total


def _blocks(kept: Kept) -> dict[str, Float[Tensor, "n h"]]:
    """What the best blocks hold beyond an even map, and beyond what the distance of query and key alone would put there."""
    most, count, sizes = best_blocks(kept.shares - kept.even * kept.rows[..., None], kept.length)
    total = kept.rows.sum(-1)
    by_size = torch.nn.functional.pad(_by_distance(kept), (1, 0)).gather(-1, sizes).sum(-1)
    return {
        "cluster": most / total,
        "cluster_beyond": _held(kept.shares, sizes) / total - by_size / kept.length[:, None],
        "blocks": count.to(most.dtype).where(total > 0, torch.nan),
    }


def _held(x: Float[Tensor, "n h t t"], sizes: Int[Tensor, "n h k"]) -> Float[Tensor, "n h"]:
    """The sum of a map within its blocks, whose sizes are told from the first to the last."""
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
    # In rows that are one longer each row is shifted against the one before: diagonals become columns.
    shifted = torch.nn.functional.pad(x.flip(-2), (0, size)).flatten(-2)[..., :-size]
    rows: Tensor = shifted.unflatten(-1, (size, 2 * size - 1))
    return rows.sum(-2)


def _cells(kept: Kept, special: Bool[Tensor, "n all"]) -> dict[str, Float[Tensor, "n h"]]:
    """Strong cells, whose key is a word: the share of rows that have one, the largest weight on a word, and the place of the
    strong cell that is farthest above an even row.

    A row that sees few keys cannot but have large weights: a strong one is also more than twice what an even row has.
    """
    on_words = kept.weights.masked_fill(special.gather(1, kept.order)[:, None, None], 0.0)
    largest, size = on_words.amax(-1), kept.weights.shape[-1]
    strong = (on_words >= STRONG - ROUNDING) & (on_words * kept.keys[:, None, :, None] > 2 + ROUNDING)
    above = (on_words - kept.even).masked_fill(~strong, -torch.inf).flatten(-2)
    # Of cells that are equally strong the first, whatever rounding makes of them.
    place = (above >= above.amax(-1, keepdim=True) - ROUNDING).byte().argmax(-1)
    numbers = {"row": (place // size).to(largest.dtype), "key": (place % size).to(largest.dtype)}
    rows = _mean(strong.any(-1).to(largest.dtype), (kept.keys > 0)[:, None])
    return {"strong": rows, "peak": largest.amax(-1), **numbers}


def _first_share(x: Float[Tensor, "n h t t"], vectors: int = 8, rounds: int = 1, steps: int = 4) -> Float[Tensor, "n h"]:
    """The first singular value squared, of the sum of all squared: by subspace iteration from fixed vectors."""
    x = x / torch.linalg.matrix_norm(x, keepdim=True)
    places, numbers = (torch.arange(size, device=x.device, dtype=x.dtype) for size in (x.shape[-1] + 1, vectors))
    basis = (0.7 * (places[1:, None] * numbers)).cos().expand(*x.shape[:2], -1, -1)
    for _ in range(rounds):
        for _ in range(steps):
            basis = x @ (x.mT @ basis)
        basis = torch.linalg.qr(basis.nan_to_num(0.0)).Q
    seen = x.mT @ basis
    first: Tensor = torch.linalg.eigvalsh((seen.mT @ seen).nan_to_num(0.0))[..., -1]
    return first.where(~x[..., 0, 0].isnan(), torch.nan)


def _fewest(shares: Float[Tensor, "n h t t"]) -> Float[Tensor, "n h t"]:
    """The fewest keys whose weights reach .9 of a row."""
    # NumPy sorts thirty times as fast as torch does on a CPU.
    ordered = torch.from_numpy(np.sort(shares.numpy(), -1)) if shares.device.type == "cpu" else shares.sort(-1).values
    left_out = (ordered.cumsum(-1) <= 1 - MASS + 1e-5).sum(-1)
    return (shares.shape[-1] - left_out).to(shares.dtype)
