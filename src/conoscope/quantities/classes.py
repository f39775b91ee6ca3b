"""Classes: the pooled vector of each text, by its label."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from jaxtyping import Bool, Float, Int, Shaped
from torch import Tensor

from conoscope.capture.batch import Batch, Memo
from conoscope.capture.trace import PooledOutput
from conoscope.quantities.base import Arrays, quantity, some_examples
from conoscope.sums.drawing import Candidates, Names
from conoscope.sums.samples import beginnings_of, names_of

SAMPLE = 4096
"""How many examples' vectors are kept."""
FEW = 256
"""How many examples' vectors are kept in every layer, to be shown one by one."""
BUDGET = 2e7
"""Sums of products are kept only if classes × layers × d² is at most this."""


@dataclass(frozen=True)
class Answer(Memo):
    """What is known of a batch after the pass: a mask of the examples that have a pooled vector, the predicted classes (-1 for a
    model that does not classify), the number of classes and the number of layers."""

    there: Bool[Tensor, " b"]
    predicted: Int[Tensor, " b"]
    classes: int
    layers: int

    @classmethod
    def of(cls, pooled: PooledOutput) -> "Answer":
        """The same for all layers."""
        return cls(pooled.there, pooled.predicted, pooled.classes, pooled.layers)

    def labelled(self, batch: Batch) -> Bool[Tensor, "b c"]:
        """A mask of the examples that have a vector, by their label."""

        def compute() -> Tensor:
            return self.there[:, None] & (batch.label[:, None] == torch.arange(self.classes, device=self.there.device))

        mask: Tensor = self.memo("labelled", compute)
        return mask

    def within_budget(self, width: int) -> bool:
        """Whether the products of all classes and layers are kept."""
        return self.classes * (self.layers + 1) * width**2 <= BUDGET


def _each_layer(x: Shaped[Tensor, "n *s"], layers: int) -> Shaped[Tensor, "l n *s"]:
    return x.expand(layers, *x.shape)


def _in_double(x: Float[Tensor, "l n 1 1 d"], keep: Bool[Tensor, "l n half c"]) -> Arrays:
    """In double precision the cosine of a vector with itself is 1."""
    return x.double(), keep


@quantity(finish=_in_double)
def class_directions(batch: Batch, answer: Answer, pooled: Float[Tensor, "l b d"]) -> Arrays:
    """Every example's vector, and a mask of the half of the corpus (by hash) and the class that it counts for."""

    def by_half() -> Tensor:
        half = batch.drawn("halves", lambda host: host.example_ranks % 2)[:, None] == torch.arange(2, device=pooled.device)
        return half[:, :, None] & answer.labelled(batch)[:, None]

    return pooled[:, :, None, None], _each_layer(answer.memo("by half", by_half), len(pooled))


def _units(x: Float[Tensor, "l n 1 d"], keep: Bool[Tensor, "l n c"]) -> Arrays:
    units = torch.nn.functional.normalize(x.double(), dim=-1)
    return units, keep & (units != 0).any(-1)


@quantity(sparse=True, finish=_units)
def class_units(batch: Batch, answer: Answer, pooled: Float[Tensor, "l b d"]) -> Arrays | None:
    """Every example's unit vector and the class it counts for; None where their products would take too much memory."""
    if not answer.within_budget(pooled.shape[-1]):
        return None
    return pooled[:, :, None], _each_layer(answer.labelled(batch), len(pooled))


@quantity(sparse=True)
def first_correct(batch: Batch, answer: Answer, pooled: Float[Tensor, "l b d"]) -> Arrays:
    """Every example's vector with its label, its place in the corpus and its name; the label is -1 unless the example is
    classified correctly. A zero vector has no direction and counts for no class."""
    right = answer.labelled(batch).any(-1) & (answer.predicted == batch.label)
    labels = batch.label.where(right & (pooled != 0).any(-1), -1)
    names = batch.drawn("names", _all_names)
    return labels, _each_layer(batch.place, len(pooled)), pooled, _each_layer(names, len(pooled)), answer.classes


def _labelled_examples(batch: Batch, there: Bool[Tensor, " b"] | None, size: int, names: Names) -> Candidates:
    labelled = batch.label >= 0
    return some_examples(batch, labelled if there is None else labelled & there, names, size)


def _many(batch: Batch, there: Bool[Tensor, " b"] | None = None, **options: str) -> Candidates:
    return _labelled_examples(batch, there, SAMPLE, lambda index: _names(batch, there, index))


def _names(batch: Batch, there: Bool[Tensor, " b"] | None, index: Int[Tensor, " m"]) -> Tensor:
    return batch.drawn("names", _all_names)[_rows(batch, there)[index]]


def _all_names(batch: Batch) -> Tensor:
    return names_of(batch.ids)


def _rows(batch: Batch, there: Bool[Tensor, " b"] | None) -> Int[Tensor, " n"]:
    labelled = batch.label >= 0
    return (labelled if there is None else labelled & there).nonzero()[:, 0]


@quantity(sample=_many, sparse=True)
def class_vectors(
    batch: Batch, answer: Answer, at: Int[Tensor, " n"], slots: Sequence[Any], pooled: Float[Tensor, "l b d"], layers: str
) -> Float[Tensor, "last n values"] | None:
    """Vectors of labelled examples, each with its label and the predicted class, of the last layer or of all.

    The other layers are sampled too if their products would take too much memory.
    """
    if layers == "last" and answer.within_budget(pooled.shape[-1]):
        last = sum(layer == answer.layers for _, layer in slots)
        return _known_vectors(batch, answer, at, pooled[-last:]) if last else None
    return _known_vectors(batch, answer, at, pooled)


def _few(batch: Batch, there: Bool[Tensor, " b"] | None = None, **options: str) -> Candidates:
    """A few examples, with the beginnings of their texts beside their names."""
    texts = batch.texts or ("",) * len(batch.ids)

    def names(index: Tensor) -> Tensor:
        beginnings = beginnings_of([texts[row] for row in _rows(batch, there)[index].tolist()])
        return torch.cat((_names(batch, there, index), beginnings), dim=-1)

    return _labelled_examples(batch, there, FEW, names)


@quantity(sample=_few, sparse=True)
def few_class_vectors(
    batch: Batch, answer: Answer, at: Int[Tensor, " n"], pooled: Float[Tensor, "l b d"]
) -> Float[Tensor, "l n values"]:
    """Vectors of a few labelled examples in every layer, each with its label, predicted class and the beginning of its text."""
    return _known_vectors(batch, answer, at, pooled)


def _known_vectors(
    batch: Batch, answer: Answer, at: Int[Tensor, " n"], pooled: Float[Tensor, "l b d"]
) -> Float[Tensor, "l n values"]:
    """The vectors of the chosen examples, then label and predicted class."""
    known = torch.stack((batch.label, answer.predicted), dim=-1)[at].to(pooled.dtype)
    return torch.cat((pooled[:, at], _each_layer(known, len(pooled))), dim=-1)


@quantity(sparse=True)
def confusion(batch: Batch, answer: Answer) -> Arrays | None:
    """The predicted class by the true class, counted once."""
    if not answer.classes:
        return None
    counts = answer.labelled(batch) & (answer.predicted >= 0)[:, None]
    return answer.predicted[:, None].expand(counts.shape).double(), counts, 1.0, 1.0, answer.classes - 1
