"""Gates: the maps of some examples, scored."""

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from conoscope.batches import Batch
from conoscope.quantities.base import Arrays, examples_entering, quantity
from conoscope.quantities.gate_scores import gate_scores
from conoscope.samples import Sample, names_of
from conoscope.statistics import at_least_single
from conoscope.traces import Trace

LEAST, LONGEST = 4, 512
"""Examples with fewer words or more tokens than this are left out."""


@quantity(looks=("maps",), sampled=True, sparse=True)
def gate_maps(trace: Trace, examples: str, so_far: Sample) -> Arrays | None:
    """Scores of the maps of so many examples of the corpus, drawn by hash: those of all heads in a row, then the label."""
    if trace.visible is None:
        return None
    size = int(examples)
    # Which examples are chosen is the same in every layer.
    at, ranks, names = trace.batch.once(("gates", size, so_far.mark), lambda: _chosen(trace.batch, so_far, size))
    if not len(at):
        return None
    # On a CPU one after the other: the maps of one fit into its caches.
    scores = torch.cat([_scores(trace, some) for some in at.split(1 if at.device.type == "cpu" else len(at))])
    labels = trace.batch.label[at, None].to(scores.dtype)
    return torch.zeros_like(ranks), ranks, torch.cat((scores.flatten(1), labels), dim=-1), names, size, 1


def _chosen(batch: Batch, so_far: Sample, size: int) -> tuple[Int[Tensor, " n"], Int[Tensor, " n"], Tensor]:
    """The examples of a batch that could enter, their ranks and names."""
    words = (batch.real & ~batch.special).sum(-1)
    at, ranks = examples_entering(batch, so_far, size, (words >= LEAST) & (batch.real.sum(-1) <= LONGEST))
    return at, ranks, names_of([batch.ids[row] for row in at.tolist()]).to(at.device)


def _scores(trace: Trace, examples: Int[Tensor, " n"]) -> Float[Tensor, "n h m"]:
    batch, (maps, visible) = trace.batch, _maps_of(trace, examples)
    real, special = batch.real[examples], batch.special[examples]
    first = torch.arange(real.shape[1], device=real.device) == batch.cls[examples, None]
    return gate_scores(at_least_single(maps), real & (~special | first), special, visible)


def _maps_of(trace: Trace, examples: Int[Tensor, " n"]) -> tuple[Float[Tensor, "n h t t"], Bool[Tensor, "n t t"]]:
    """The maps of some examples, and which keys each query may see.

    A query that does not see all may see what any of the heads gives weight to.
    """
    maps, real = trace.maps(examples), trace.batch.real[examples]
    assert maps is not None
    assert trace.visible is not None
    whole = trace.visible[examples] == real.sum(-1, keepdim=True)
    return maps, ((maps > 0).any(1) | whole[..., None]) & real[:, None]
