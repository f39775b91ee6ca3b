"""Pairs of texts to patch: of equal length in tokens, with different answers."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from conoscope.capture.batch import Batch
from conoscope.capture.batcher import Batcher, Row
from conoscope.capture.loading import LoadedModel
from conoscope.causes.parts import classifying_of
from conoscope.common.errors import CorpusError
from conoscope.corpora import Corpus, Example

KINDS = ("differing", "classifying", "other")
"""Places of a pair: those whose tokens differ, the one that is classified from, all others. A place is of the first that fits."""


@dataclass(frozen=True)
class Pair:
    """Two texts of as many tokens, tokenized: what is moved comes from the first, and the second runs."""

    number: int
    source: Row
    target: Row


def pairs_of(corpus: Corpus, batcher: Batcher) -> Iterator[Pair]:
    """Every two examples in a row, tokenized; CorpusError if a text has no other, or another number of tokens."""
    before: tuple[Example, int] | None = None
    number = 0
    for number, example in enumerate(corpus, 1):
        if before is None:
            before = example, number
            continue
        source, target = (batcher.rows([some])[0] for some in (before, (example, number)))
        if source.length != target.length:
            raise CorpusError(
                f"{source.example.id} has {source.length} tokens and {target.example.id} {target.length}, and a vector is moved "
                "to the same place of the other text; give texts of equal length"
            )
        yield Pair(number // 2, source, target)
        before = None
    if before is not None:
        raise CorpusError(
            f"{corpus} has {number} texts, which are no pairs; give an even number, each two in a row of one length"
        )


@dataclass(frozen=True)
class Answered:
    """Some pairs of one length as two batches without padding, with the plain answers to both texts."""

    pairs: Sequence[Pair]
    source: Batch
    target: Batch
    answers: tuple[Float[Tensor, "n c"], Float[Tensor, "n c"]]

    @property
    def classes(self) -> tuple[Int[Tensor, " n"], Int[Tensor, " n"]]:
        """The class that the model predicts for each text."""
        return self.answers[0].argmax(-1), self.answers[1].argmax(-1)

    def margins(self, logits: Float[Tensor, "... n c"]) -> Float[Tensor, "... n"]:
        """The logit of the first text's class minus that of the second's."""
        one, other = (at.expand(logits.shape[:-1])[..., None] for at in self.classes)
        return (logits.double().gather(-1, one) - logits.double().gather(-1, other))[..., 0]

    def kinds(self) -> Int[Tensor, "n t"]:
        """The kind of each place, as an index into KINDS."""
        differ = self.source.inputs["input_ids"] != self.target.inputs["input_ids"]
        return torch.where(differ, 0, torch.where(classifying_of(self.target), 1, 2))


def answered(loaded: LoadedModel, pairs: Iterable[Pair], batcher: Batcher, size: int) -> Iterator[Answered]:
    """The pairs, in batches of one length, with their answers."""
    by_length: dict[int, list[Pair]] = {}
    for pair in pairs:
        by_length.setdefault(pair.source.length, []).append(pair)
    for _, alike in sorted(by_length.items()):
        for begin in range(0, len(alike), size):
            some = alike[begin : begin + size]
            batches = [_together(batcher, [getattr(pair, side) for pair in some]) for side in ("source", "target")]
            source, target = (batch.to(loaded.device) for batch in batches)
            yield Answered(some, source, target, (loaded.answer(source), loaded.answer(target)))


def _together(batcher: Batcher, rows: Sequence[Row]) -> Batch:
    """One batch of rows of one length, in their order; pairs of texts and single texts would have other inputs."""
    numbered = [replace(row, place=number) for number, row in enumerate(rows, 1)]
    batches = list(batcher.batches_of(numbered, len(rows)))
    if len(batches) > 1:
        raise CorpusError("some texts are pairs of texts and some are not; give those of one kind")
    return batches[0]


def usable(answers: Answered, labelled: bool) -> tuple[Bool[Tensor, " n"], Bool[Tensor, " n"]]:
    """The pairs whose answers differ; and those that are right too, where texts have labels."""
    one, other = answers.classes
    differ = one != other
    right = (one == answers.source.label) & (other == answers.target.label) if labelled else differ
    return differ, differ & right
