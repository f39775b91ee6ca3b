"""Gates: the maps of some examples, scored, and pooled onto a grid on which texts of any length meet."""

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
"""How many cells a side of the grid has."""


@quantity(reductions=("maps",), sampled=True, sparse=True)
def gate_maps(trace: Trace, examples: str, so_far: Sample) -> Arrays | None:
    """Scores of the maps of so many examples of the corpus, drawn by hash: those of all heads in a row, then the label."""

    def scored(some: Tensor) -> Tensor:
        scores = _scores(trace, some).flatten(1)
        return torch.cat((scores, trace.batch.label[some, None].to(scores.dtype)), dim=-1)

    return _sampled(trace, examples, so_far, scored)


@quantity(reductions=("maps",), sampled=True, sparse=True)
def pooled_maps(trace: Trace, examples: str, so_far: Sample) -> Arrays | None:
    """The maps of the same examples, pooled onto the grid: those of all heads in a row."""
    return _sampled(trace, examples, so_far, lambda some: pooled_map(_maps(trace, some), trace.batch.real[some]).flatten(1))


def pooled_map(maps: Float[Tensor, "n h t t"], real: Bool[Tensor, "n t"]) -> Float[Tensor, "n h g g"]:
    """R A C: the mean over the queries of each cell, of what they give to the keys of each cell.

    The weight of a key that stands in several cells is dealt to them by its share in each, so that rows still add up to 1.
    """
    inside = overlaps(real).to(maps.dtype)[:, None]
    # Nothing is known of the weights of pads: they may be NaN.
    known = maps.where((real[:, :, None] & real[:, None])[:, None], 0.0)
    return inside / inside.sum(-1, keepdim=True) @ known @ inside.mT


def overlaps(real: Bool[Tensor, "n t"]) -> Float[Tensor, "n g t"]:
    """How much of each token lies in each cell: the first and the last token fill a cell of their own, those between them share
    the others evenly. One or two tokens alone are spread over all cells."""
    length = real.sum(-1, keepdim=True)
    cells = torch.arange(GRID + 1, dtype=torch.float64, device=real.device)
    inner = torch.cat((torch.zeros_like(length), 1 + (cells[1:-1] - 1) * (length - 2) / (GRID - 2), length), dim=-1)
    edges = inner.where(length > 2, cells * length / GRID)
    begins = (real.cumsum(-1) - 1)[:, None]
    upper, lower = edges[:, 1:, None].minimum(begins + 1), edges[:, :-1, None].maximum(begins)
    return (upper - lower).clamp_min(0).where(real[:, None], 0.0)


def _sampled(trace: Trace, examples: str, so_far: Sample, run_options: Callable[[Tensor], Tensor]) -> Arrays | None:
    """What is told of the maps of those examples that could enter the sample; None where there are none."""
    if trace.visible is None:
        return None
    size = int(examples)
    # Which examples are chosen is the same in every layer.
    at, ranks, names = trace.batch.memo(("gates", size, so_far.mark), lambda: _chosen(trace.batch, so_far, size))
    if not len(at):
        return None
    return torch.zeros_like(ranks), ranks, torch.cat([run_options(some) for some in _some(at)]), names, size, 1


def _some(at: Int[Tensor, " n"]) -> tuple[Int[Tensor, " m"], ...]:
    """On a CPU one after the other: the maps of one fit into its caches."""
    parts: tuple[Tensor, ...] = at.split(1 if at.device.type == "cpu" else len(at))
    return parts


def _chosen(batch: Batch, so_far: Sample, size: int) -> tuple[Int[Tensor, " n"], Int[Tensor, " n"], Tensor]:
    """The examples of a batch that could enter, their ranks and names."""
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
    """The maps of some examples, and which keys each query may see.

    A query that does not see all may see what any of the heads gives weight to.
    """
    maps, real = _maps(trace, examples), trace.batch.real[examples]
    assert trace.visible is not None
    whole = trace.visible[examples] == real.sum(-1, keepdim=True)
    return maps, ((maps > 0).any(1) | whole[..., None]) & real[:, None]
