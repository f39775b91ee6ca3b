"""Batcher: turns examples into batches."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import count, groupby, islice
from typing import TypeVar

import numpy as np
import torch
from jaxtyping import Bool, Float, Int, Shaped
from torch import Tensor
from transformers import BatchEncoding, PreTrainedTokenizerBase

from conoscope.capture.alignment import place_of, words_of
from conoscope.capture.batch import Batch
from conoscope.capture.class_token import ONE_TOKEN, Reading, Side
from conoscope.capture.token_kinds import Kinds
from conoscope.common.errors import CorpusError, ModelError
from conoscope.corpora.base import Example

WINDOW = 32
"""How many batches of examples are sorted by length together, to reduce padding."""
NO_PAD = -1
"""The padding id if nothing is padded: no token has this id."""
T = TypeVar("T")


@dataclass(frozen=True)
class TokenAnnotations:
    """The user's annotations of tokens: own kinds (name to words), and frequency ranks by token id."""

    kinds: Mapping[str, Sequence[str]] = field(default_factory=dict)
    ranks: Float[Tensor, " v"] | None = None


@dataclass(frozen=True)
class Row:
    """A tokenized example: its number, the model's inputs without padding, the word of each token, and whether it was cut."""

    example: Example
    place: int
    inputs: dict[str, Int[np.ndarray, " t"]]
    words: Int[np.ndarray, " t"]
    truncated: bool

    @property
    def length(self) -> int:
        """The number of its tokens."""
        return len(self.words)


class Batcher:
    """Turns examples into batches with one tokenizer; padding follows the model, not the tokenizer's settings."""

    def __init__(
        self,
        tokenizer: PreTrainedTokenizerBase,
        labels: Mapping[str, int],
        limits: tuple[int, int],
        reading: Reading,
        annotations: TokenAnnotations | None = None,
    ) -> None:
        """`limits`: the maximum input length in tokens, and the model's number of token ids; `reading`: where the model reads the
        class, and how inputs are padded."""
        self.tokenizer, self.labels, self.reading = tokenizer, labels, reading
        self.max_length, self.vocabulary = limits
        self.truncated = 0
        self.step = 1
        """Batches that are padded are padded to a multiple of this: then more of them have one shape."""
        self.annotations = annotations or TokenAnnotations()
        self._kinds = Kinds(tokenizer, self._unknown_id, self.annotations.kinds)

    def batches(self, examples: Iterable[Example], size: int, places: Iterable[int] | None = None) -> Iterator[Batch]:
        """Batches of `size` examples of similar length, so not in the given order; those of WINDOW batches are sorted together.
        `places`: the examples' numbers."""
        numbered = zip(examples, count(1) if places is None else places, strict=False)
        while some := list(islice(numbered, size * WINDOW)):
            yield from self.batches_of([row for few in _cut(some, size) for row in self.rows(few)], size)

    def rows(self, numbered: Iterable[tuple[Example, int]]) -> list[Row]:
        """Examples with their numbers, tokenized."""
        pairs = list(numbered)
        alike = [p for p in pairs if p[0].pair is None], [p for p in pairs if p[0].pair is not None]
        return [row for some in alike if some for row in self._rows(*zip(*some, strict=True))]

    def batches_of(self, rows: Sequence[Row], size: int) -> Iterator[Batch]:
        """Batches of `size` tokenized examples of similar length: pairs after single texts."""
        for alike in ([row for row in rows if row.example.pair is None], [row for row in rows if row.example.pair is not None]):
            yield from map(self._batch, self._together(sorted(alike, key=lambda row: row.length), size))

    def _together(self, ordered: Sequence[Row], size: int) -> Iterator[Sequence[Row]]:
        """The examples of each batch, from the shortest to the longest; of equal length where nothing can be padded."""
        if self.reading.side is None:
            yield from _by_length(ordered, size)
            return
        for chosen in _cut(ordered, size):
            yield from [chosen] if self._paddable(chosen) else _by_length(chosen, size)

    def _paddable(self, rows: Sequence[Row]) -> bool:
        """Whether these examples can share a batch: there is a token to pad them with, or they need no padding."""
        if self.reading.pad is not None or len(rows) * self.max_length < self.vocabulary:
            return True
        return self._pad(rows) != NO_PAD or len({row.length for row in rows}) == 1

    def batch(self, examples: Sequence[Example]) -> Batch:
        """One batch of these examples, numbered from 1: all of them pairs, or none."""
        return self._batch(self._rows(examples, range(1, len(examples) + 1)))

    def _rows(self, examples: Sequence[Example], places: Sequence[int]) -> list[Row]:
        encoded = self._encoded(examples)
        self._refuse_unreadable(examples, encoded["input_ids"])
        offsets = encoded.pop("offset_mapping")
        return [
            Row(
                example,
                place,
                {name: np.array(rows[number]) for name, rows in encoded.items()},
                words_of(example, np.array(offsets[number]), encoded.sequence_ids(number)),
                bool(encoded.encodings[number].overflowing),
            )
            for number, (example, place) in enumerate(zip(examples, places, strict=True))
        ]

    def _batch(self, rows: Sequence[Row]) -> Batch:
        examples = [row.example for row in rows]
        self.truncated += sum(row.truncated for row in rows)
        pad, side = self._pad(rows), self.reading.side or "right"
        fills = {"input_ids": max(pad, 0), "token_type_ids": self.tokenizer.pad_token_type_id}
        width = self._width([row.length for row in rows])
        inputs = {
            name: arrays_side_by_side([row.inputs[name] for row in rows], fills.get(name, 0), side, width)
            for name in rows[0].inputs
        }
        real = arrays_side_by_side([np.ones(row.length, dtype=bool) for row in rows], 0, side, width)
        ids = inputs["input_ids"]
        kind, named = self._kinds.of(ids, real)
        return Batch(
            inputs=inputs,
            real=real,
            kind=kind,
            named=named,
            unknown=(ids == self._unknown_id) & real,
            word=arrays_side_by_side([row.words for row in rows], -1, side, width),
            cls=self._cls(ids, real),
            label=torch.tensor([-1 if e.label is None else self.labels.get(e.label, -1) for e in examples]),
            place=torch.tensor([row.place for row in rows]),
            ids=tuple(e.id for e in examples),
            classes=1 + max(self.labels.values(), default=-1),
            spelling=self._kinds.spelling,
            kinds=self._kinds.names,
            frequency=None if self.annotations.ranks is None else self.annotations.ranks[ids],
            texts=tuple(e.text if e.pair is None else f"{e.text} / {e.pair}" for e in examples),
            pad=pad if self.reading.pad is None else None,
            reads=self.reading.place in ONE_TOKEN,
        )

    def _encoded(self, examples: Sequence[Example]) -> BatchEncoding:
        """The tokenized examples, without padding."""
        pairs = [e.pair for e in examples if e.pair is not None]
        assert len(pairs) in (0, len(examples)), "a text beside pairs would be read as a pair with nothing"
        least = 1 + self.tokenizer.num_special_tokens_to_add(pair=bool(pairs))
        if self.max_length < least:
            raise ModelError(f"an input of {self.max_length} tokens has no room for a word; give --max-length {least} or more")
        return self.tokenizer(
            *(([e.text for e in examples], pairs) if pairs else ([e.text for e in examples],)),
            truncation=True,
            max_length=self.max_length,
            padding=False,
            return_attention_mask=True,
            return_offsets_mapping=True,
        )

    def _width(self, lengths: Sequence[int]) -> int:
        """How wide a batch of these lengths is; without padding, or with a padding token that each batch chooses, no wider than
        it must be."""
        longest = max(lengths)
        if len(set(lengths)) == 1 or self.reading.pad is None:
            return longest
        return min(-(-longest // self.step) * self.step, max(longest, self.max_length))

    def _pad(self, rows: Sequence[Row]) -> int:
        """The padding id: the one that the model's configuration names, or else one that occurs in no row."""
        if self.reading.pad is not None:
            return self.reading.pad
        used = {token for row in rows for token in row.inputs["input_ids"].tolist()}
        return next((token for token in range(self.vocabulary) if token not in used), NO_PAD)

    def _refuse_unreadable(self, examples: Sequence[Example], rows: Sequence[Sequence[int]]) -> None:
        for example, tokens in zip(examples, rows, strict=True):
            if not tokens:
                raise CorpusError(f"{example.id}: the text {example.text!r} gives no token; take it out")
        if (largest := max(map(max, rows), default=0)) >= self.vocabulary:
            raise ModelError(
                f"the tokenizer gives the id {largest} to a model that knows {self.vocabulary} tokens; "
                "they do not belong together"
            )

    @property
    def _unknown_id(self) -> int:
        """The id that means only "unknown", else -1 (GPT-2's is also the end of a text)."""
        tokenizer = self.tokenizer
        shared = {tokenizer.eos_token_id, tokenizer.bos_token_id, tokenizer.pad_token_id}
        unknown = tokenizer.unk_token_id
        return -1 if unknown is None or unknown in shared else int(unknown)

    def _cls(self, ids: Int[Tensor, "b t"], real: Bool[Tensor, "b t"]) -> Int[Tensor, " b"]:
        """The position at which the class is read; that of [CLS] if the model reads several tokens or none."""
        read = self.reading.at(ids, real)
        return torch.where(read >= 0, read, place_of(self.tokenizer.cls_token_id, ids, real))


def _by_length(ordered: Sequence[Row], size: int) -> Iterator[Sequence[Row]]:
    for _, alike in groupby(ordered, key=lambda row: row.length):
        yield from _cut(list(alike), size)


def _cut(items: Sequence[T], size: int) -> Iterator[list[T]]:
    return (list(items[start : start + size]) for start in range(0, len(items), size))


def arrays_side_by_side(rows: Sequence[Shaped[np.ndarray, " _"]], fill: int, side: Side, width: int) -> Shaped[Tensor, "b t"]:
    """The arrays as rows of one tensor of this width, padded with `fill`."""
    whole = np.full((len(rows), width), fill, dtype=rows[0].dtype)
    for line, row in zip(whole, rows, strict=True):
        line[slice(len(row)) if side == "right" else slice(width - len(row), width)] = row
    return torch.from_numpy(whole)
