"""Classes: the pooled vector of each text, by its label."""

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from conoscope.capture.trace import PooledOutput
from conoscope.quantities.base import ALL, Arrays, examples_entering, quantity
from conoscope.sums.numeric import at_least_single
from conoscope.sums.samples import Sample, beginnings_of, names_of

SAMPLE = 4096
"""How many examples' vectors are kept."""
FEW = 256
"""How many examples' vectors are kept in every layer, to be shown one by one."""
BUDGET = 2e7
"""Sums of products are kept only if classes × layers × d² is at most this."""


def _labelled(answer: PooledOutput) -> Bool[Tensor, "b c"]:
    """A mask of the examples that have a vector, by their label."""

    def compute() -> Tensor:
        classes = torch.arange(answer.classes, device=answer.there.device)
        return answer.there[:, None] & (answer.batch.label[:, None] == classes)

    mask: Tensor = answer.batch.memo("labelled", compute)
    return mask


def _vectors(answer: PooledOutput, site: str) -> Float[Tensor, "b d"] | None:
    vectors: Tensor | None = getattr(answer, site)
    return None if vectors is None else at_least_single(vectors)


def _within_budget(answer: PooledOutput, width: int) -> bool:
    return answer.classes * (answer.layers + 1) * width**2 <= BUDGET


@quantity(of=PooledOutput)
def class_directions(answer: PooledOutput, site: str) -> Arrays | None:
    """Every example's vector, and a mask of the half of the corpus (by hash) and the class that it counts for."""
    x = _vectors(answer, site)
    if x is None:
        return None

    def by_half() -> Tensor:
        half = answer.batch.example_ranks[:, None] % 2 == torch.arange(2, device=x.device)
        return half[:, :, None] & _labelled(answer)[:, None]

    # In double: the cosine of a vector with itself is then 1.
    return x[:, None, None].double(), answer.batch.memo("by half", by_half)


def _units(x: Float[Tensor, "n 1 d"], keep: Bool[Tensor, "n c"]) -> Arrays:
    units = torch.nn.functional.normalize(x.double(), dim=-1)
    return units, keep & (units != 0).any(-1)


@quantity(of=PooledOutput, sparse=True, finish=_units)
def class_units(answer: PooledOutput, site: str) -> Arrays | None:
    """Every example's unit vector and the class it counts for; None where their products would take too much memory."""
    x = _vectors(answer, site)
    if x is None or not _within_budget(answer, x.shape[-1]):
        return None
    return x[:, None], _labelled(answer)


@quantity(of=PooledOutput, sampled=True, sparse=True)
def first_correct(answer: PooledOutput, site: str, so_far: Sample) -> Arrays | None:
    """The vector of each class's first correctly classified example, in the order of the corpus."""
    batch, x = answer.batch, _vectors(answer, site)
    if x is None:
        return None
    right: Tensor = batch.memo("right", lambda: (_labelled(answer).any(-1) & (answer.predicted == batch.label)).nonzero()[:, 0])
    # A zero vector has no direction.
    right = right[(x[right] != 0).any(-1)]
    kept = right[so_far.entering(batch.label[right], batch.place[right], (1, ALL))]
    if not len(kept):
        return None
    return batch.label[kept], batch.place[kept], x[kept], _ids(answer, kept), 1, ALL


@quantity(of=PooledOutput, sampled=True, sparse=True)
def class_vectors(answer: PooledOutput, site: str, layers: str, so_far: Sample) -> Arrays | None:
    """Vectors of labelled examples, each with its label and the predicted class, of the last layer or of all.

    The other layers are sampled too if their products would take too much memory.
    """
    x = _vectors(answer, site)
    if x is None or (layers == "last" and answer.layer < answer.layers and _within_budget(answer, x.shape[-1])):
        return None
    return _known_vectors(answer, x, _entering(answer, so_far, SAMPLE), SAMPLE)


@quantity(of=PooledOutput, sampled=True, sparse=True)
def few_class_vectors(answer: PooledOutput, site: str, so_far: Sample) -> Arrays | None:
    """Vectors of a few labelled examples in every layer, each with its label, predicted class and the beginning of its text."""
    x = _vectors(answer, site)
    if x is None:
        return None
    # The same examples are chosen in every layer.
    chosen = answer.batch.memo(("few vectors", so_far.mark), lambda: _with_beginnings(answer, _entering(answer, so_far, FEW)))
    return _known_vectors(answer, x, chosen, FEW)


Chosen = tuple[Int[Tensor, " n"], Int[Tensor, " n"], Tensor]
"""Rows of a batch, their ranks, and the names of the examples."""


def _entering(answer: PooledOutput, so_far: Sample, size: int) -> Chosen:
    """The labelled examples that could enter a sample of `size`."""
    kept, ranks = examples_entering(answer.batch, so_far, size, _labelled(answer).any(-1))
    return kept, ranks, _ids(answer, kept)


def _with_beginnings(answer: PooledOutput, chosen: Chosen) -> Chosen:
    """The same examples, with the beginnings of their texts beside their names."""
    kept, ranks, names = chosen
    texts = answer.batch.texts or ("",) * len(answer.batch.ids)
    beginnings = beginnings_of([texts[row] for row in kept.tolist()]).to(names.device)
    return kept, ranks, torch.cat((names, beginnings), dim=-1)


def _known_vectors(answer: PooledOutput, x: Float[Tensor, "b d"], chosen: Chosen, size: int) -> Arrays | None:
    """The vectors of the chosen examples, then label and predicted class."""
    kept, ranks, names = chosen
    if not len(kept):
        return None
    known = torch.stack((answer.batch.label, answer.predicted), dim=-1)[kept].to(x.dtype)
    return torch.zeros_like(ranks), ranks, torch.cat((x[kept], known), dim=-1), names, size, 1


@quantity(of=PooledOutput, sparse=True)
def confusion(answer: PooledOutput) -> Arrays | None:
    """The predicted class by the true class, counted once, in the last layer."""
    if answer.layer < answer.layers or not answer.classes:
        return None
    counts = _labelled(answer) & (answer.predicted >= 0)[:, None]
    return answer.predicted[:, None].expand(counts.shape).double(), counts, 1.0, 1.0, answer.classes - 1


def _ids(answer: PooledOutput, kept: Tensor) -> Tensor:
    return names_of([answer.batch.ids[row] for row in kept.tolist()]).to(kept.device)
