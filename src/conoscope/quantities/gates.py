"""Gates: attention maps of some examples, scored, and pooled onto one grid for texts of any length."""

from collections.abc import Callable

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from conoscope.capture.batch import Batch
from conoscope.quantities.base import quantity, some_examples
from conoscope.quantities.gate_scores import gate_scores
from conoscope.sums.drawing import Candidates
from conoscope.sums.samples import names_of

LEAST, LONGEST = 4, 512
"""Examples with fewer words or more tokens than this are left out."""
GRID = 16
"""The number of cells on each side of the grid."""
TOGETHER = 2**23
"""How many weights are scored at once on a GPU; a CPU takes one example of one layer at a time, whose maps fit its caches."""


def fits(batch: Batch) -> Bool[Tensor, " b"]:
    """Mask of the examples of enough words and not too many tokens."""
    length = batch.length[:, 0]
    return (length - batch.special.sum(-1) >= LEAST) & (length <= LONGEST)


def _examples(batch: Batch, examples: str) -> Candidates:
    """Candidates among the examples that fit."""

    def compute() -> tuple[Tensor, Tensor]:
        fitting = fits(batch)
        return fitting, fitting.nonzero()[:, 0]

    fitting, rows = batch.memo("gate examples", compute)

    def names(index: Tensor) -> Tensor:
        return names_of([batch.ids[row] for row in rows[index].tolist()])

    return some_examples(batch, fitting, names, int(examples))


@quantity(sample=_examples, sparse=True, postponed=True)
def gate_maps(
    batch: Batch, at: Int[Tensor, " n"], maps: Float[Tensor, "l n h s s"], visible: Int[Tensor, "l b t"], examples: str
) -> Float[Tensor, "l n values"]:
    """Scores of the maps of `examples` examples of the corpus, sampled by hash: all heads flattened, then the label."""
    size = maps.shape[-1]
    real, special, visible = batch.real[at, :size], batch.special[at, :size], visible[:, at, :size]
    keep = real & (~special | (torch.arange(real.shape[1], device=real.device) == batch.cls[at, None]))
    # If not all keys are visible to a query, those with weight in any head are taken as visible.
    every = visible == real.sum(-1, keepdim=True)

    def scored(some: Tensor, which: Tensor, row: Tensor) -> Tensor:
        seen = ((some > 0).any(1) | every[which, row][..., None]) & real[row][:, None]
        return gate_scores(some, keep[row], special[row], seen).flatten(1)

    scores = _each(maps, scored)
    return torch.cat((scores, batch.label[at].to(scores.dtype)[None, :, None].expand(len(scores), -1, 1)), dim=-1)


@quantity(sample=_examples, sparse=True, postponed=True)
def pooled_maps(
    batch: Batch, at: Int[Tensor, " n"], maps: Float[Tensor, "l n h s s"], examples: str
) -> Float[Tensor, "l n values"]:
    """The maps of the same examples, pooled onto the grid, all heads flattened."""
    real = batch.real[at, : maps.shape[-1]]
    return _each(maps, lambda some, which, row: pooled_map(some, real[row]).flatten(1))


def _each(maps: Float[Tensor, "l n h t t"], compute: Callable[[Tensor, Tensor, Tensor], Tensor]) -> Float[Tensor, "l n values"]:
    """`compute` of the maps, some at a time: it takes maps (m, h, t, t), the layer of each in the stack, and its example."""
    layers, count = maps.shape[:2]
    layer, example = (
        torch.arange(layers * count, device=maps.device) // count,
        torch.arange(layers * count, device=maps.device) % count,
    )
    size = 1 if maps.device.type == "cpu" else max(1, TOGETHER // maps.shape[2:].numel())
    flat = maps.flatten(0, 1)
    parts = [compute(flat[some], layer[some], example[some]) for some in _slices(len(flat), size)]
    found: Tensor = torch.cat(parts).unflatten(0, (layers, count))
    return found


def _slices(count: int, size: int) -> list[slice]:
    return [slice(begin, begin + size) for begin in range(0, count, size)]


def pooled_map(maps: Float[Tensor, "n h t t"], real: Bool[Tensor, "n t"]) -> Float[Tensor, "n h g g"]:
    """R A C: the mean, over the queries of each cell, of their weight on the keys of each cell.

    The weight of a key that lies in several cells is split by its share in each, so that rows still add up to 1.
    """
    inside = overlaps(real).to(maps.dtype)[:, None]
    # The weights of pads may be NaN.
    known = maps.where((real[:, :, None] & real[:, None])[:, None], 0.0)
    return inside / inside.sum(-1, keepdim=True) @ known @ inside.mT


def overlaps(real: Bool[Tensor, "n t"]) -> Float[Tensor, "n g t"]:
    """The share of each token in each cell.

    The first and the last token fill a cell of their own; the tokens between share the other cells evenly. A text of one or two
    tokens is spread over all cells.
    """
    length = real.sum(-1, keepdim=True)
    cells = torch.arange(GRID + 1, dtype=torch.float64, device=real.device)
    inner = torch.cat((torch.zeros_like(length), 1 + (cells[1:-1] - 1) * (length - 2) / (GRID - 2), length), dim=-1)
    edges = inner.where(length > 2, cells * length / GRID)
    begins = (real.cumsum(-1) - 1)[:, None]
    upper, lower = edges[:, 1:, None].minimum(begins + 1), edges[:, :-1, None].maximum(begins)
    return (upper - lower).clamp_min(0).where(real[:, None], 0.0)
