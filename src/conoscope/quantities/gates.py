"""Gates: attention maps of some examples, scored, and pooled onto one grid for texts of any length."""

from collections.abc import Callable

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from conoscope.capture.batch import Batch
from conoscope.capture.trace import Trace
from conoscope.quantities.base import Arrays, examples_entering, quantity
from conoscope.quantities.gate_scores import gate_scores
from conoscope.sums.numeric import at_least_single
from conoscope.sums.samples import Sample, names_of

LEAST, LONGEST = 4, 512
"""Examples with fewer words or more tokens than this are left out."""
GRID = 16
"""The number of cells on each side of the grid."""


@quantity(reductions=("maps",), sampled=True, sparse=True)
def gate_maps(trace: Trace, examples: str, so_far: Sample) -> Arrays | None:
    """Scores of the maps of `examples` examples of the corpus, sampled by hash: all heads flattened, then the label."""

    def scored(some: Tensor) -> Tensor:
        scores = _scores(trace, some).flatten(1)
        return torch.cat((scores, trace.batch.label[some, None].to(scores.dtype)), dim=-1)

    return _sampled(trace, examples, so_far, scored)


@quantity(reductions=("maps",), sampled=True, sparse=True)
def pooled_maps(trace: Trace, examples: str, so_far: Sample) -> Arrays | None:
    """The maps of the same examples, pooled onto the grid, all heads flattened."""
    return _sampled(trace, examples, so_far, lambda some: pooled_map(_maps(trace, some), trace.batch.real[some]).flatten(1))


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


def _sampled(trace: Trace, examples: str, so_far: Sample, compute: Callable[[Tensor], Tensor]) -> Arrays | None:
    """`compute` of the examples that could enter the sample, as the arguments of Sample; None if there are none."""
    if trace.visible is None:
        return None
    size = int(examples)
    # The same examples are chosen in every layer.
    at, ranks, names = trace.batch.memo(("gates", size, so_far.mark), lambda: _chosen(trace.batch, so_far, size))
    if not len(at):
        return None
    return torch.zeros_like(ranks), ranks, torch.cat([compute(some) for some in _chunks(at)]), names, size, 1


def _chunks(at: Int[Tensor, " n"]) -> tuple[Int[Tensor, " m"], ...]:
    """The examples to process at once: one at a time on a CPU, whose caches hold the maps of one; all on a GPU."""
    parts: tuple[Tensor, ...] = at.split(1 if at.device.type == "cpu" else len(at))
    return parts


def _chosen(batch: Batch, so_far: Sample, size: int) -> tuple[Int[Tensor, " n"], Int[Tensor, " n"], Tensor]:
    """The examples of a batch that could enter the sample, their ranks and names."""
    words = (batch.real & ~batch.special).sum(-1)
    at, ranks = examples_entering(batch, so_far, size, (words >= LEAST) & (batch.real.sum(-1) <= LONGEST))
    return at, ranks, names_of([batch.ids[row] for row in at.tolist()]).to(at.device)


def _scores(trace: Trace, examples: Int[Tensor, " n"]) -> Float[Tensor, "n h m"]:
    batch, (maps, visible) = trace.batch, _maps_of(trace, examples)
    real, special = batch.real[examples], batch.special[examples]
    first = torch.arange(real.shape[1], device=real.device) == batch.cls[examples, None]
    return gate_scores(maps, real & (~special | first), special, visible)


def _maps(trace: Trace, examples: Int[Tensor, " n"]) -> Float[Tensor, "n h t t"]:
    maps = trace.maps(examples)
    assert maps is not None
    return at_least_single(maps)


def _maps_of(trace: Trace, examples: Int[Tensor, " n"]) -> tuple[Float[Tensor, "n h t t"], Bool[Tensor, "n t t"]]:
    """The maps of some examples, and which keys are visible to each query.

    If not all keys are visible to a query, those with weight in any head are taken as visible.
    """
    maps, real = _maps(trace, examples), trace.batch.real[examples]
    assert trace.visible is not None
    whole = trace.visible[examples] == real.sum(-1, keepdim=True)
    return maps, ((maps > 0).any(1) | whole[..., None]) & real[:, None]
