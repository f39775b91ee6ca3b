"""Batcher: turns examples into batches."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import count, groupby
from typing import TypeVar

import numpy as np
import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor
from transformers import BatchEncoding, PreTrainedTokenizerBase

from conoscope.capture.alignment import place_of, words_of
from conoscope.capture.batch import Batch
from conoscope.capture.class_token import ONE_TOKEN, Reading, side_by_side
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
        self.annotations = annotations or TokenAnnotations()
        self._kinds = Kinds(tokenizer, self._unknown_id, self.annotations.kinds)

    def batches(self, examples: Iterable[Example], size: int, places: Iterable[int] | None = None) -> Iterator[Batch]:
        """Batches of `size` examples of similar length, so not in the given order. `places`: the examples' numbers."""
        numbered = list(zip(examples, count(1) if places is None else places, strict=False))
        for alike in ([p for p in numbered if p[0].pair is None], [p for p in numbered if p[0].pair is not None]):
            for together in self._together(alike, size):
                chosen, numbers = zip(*together, strict=True)
                yield replace(self.batch(chosen), place=torch.tensor(numbers))

    def _together(self, numbered: Sequence[tuple[Example, int]], size: int) -> Iterator[list[tuple[Example, int]]]:
        """The examples of each batch: of similar length, or of equal length if nothing can be padded."""
        if self.reading.side is not None:
            ordered = sorted(numbered, key=lambda pair: len(pair[0].text) + len(pair[0].pair or ""))
            for chosen in _cut(ordered, size):
                yield from [chosen] if self._paddable(chosen) else self._by_length(chosen, size)
        else:
            yield from self._by_length(numbered, size)

    def _by_length(self, numbered: Sequence[tuple[Example, int]], size: int) -> Iterator[list[tuple[Example, int]]]:
        lengths = [len(ids) for ids in self._encoded([example for example, _ in numbered])["input_ids"]] if numbered else []
        ordered = sorted(zip(lengths, numbered, strict=True), key=lambda item: item[0])
        for _, alike in groupby(ordered, key=lambda item: item[0]):
            yield from _cut([pair for _, pair in alike], size)

    def _paddable(self, numbered: Sequence[tuple[Example, int]]) -> bool:
        """Whether these examples can share a batch: there is a token to pad them with, or they need no padding."""
        if self.reading.pad is not None or len(numbered) * self.max_length < self.vocabulary:
            return True
        encoded = self._encoded([example for example, _ in numbered])["input_ids"]
        return self._pad(encoded) != NO_PAD or len(set(map(len, encoded))) == 1

    def batch(self, examples: Sequence[Example]) -> Batch:
        """One batch of these examples, numbered from 1: all of them pairs, or none."""
        encoded = self._encoded(examples)
        lengths = [len(row) for row in encoded["input_ids"]]
        self._refuse_unreadable(examples, encoded["input_ids"])
        self.truncated += sum(bool(encoding.overflowing) for encoding in encoded.encodings)
        pad, side = self._pad(encoded["input_ids"]), self.reading.side or "right"
        fills = {"input_ids": max(pad, 0), "token_type_ids": self.tokenizer.pad_token_type_id}
        words = [
            words_of(example, np.array(offsets), encoded.sequence_ids(row)).tolist()
            for row, (example, offsets) in enumerate(zip(examples, encoded.pop("offset_mapping"), strict=True))
        ]
        inputs = {name: side_by_side(rows, fills.get(name, 0), side) for name, rows in encoded.items()}
        ids, real = inputs["input_ids"], side_by_side([[1] * length for length in lengths], 0, side).bool()
        kind, named = self._kinds.of(ids, real)
        return Batch(
            inputs=inputs,
            real=real,
            kind=kind,
            named=named,
            unknown=(ids == self._unknown_id) & real,
            word=side_by_side(words, -1, side),
            cls=self._cls(ids, real),
            label=torch.tensor([-1 if e.label is None else self.labels.get(e.label, -1) for e in examples]),
            place=torch.arange(1, len(examples) + 1),
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

    def _pad(self, rows: Sequence[Sequence[int]]) -> int:
        """The padding id: the one that the model's configuration names, or else one that occurs in no row."""
        if self.reading.pad is not None:
            return self.reading.pad
        used = {token for row in rows for token in row}
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


def _cut(items: Sequence[T], size: int) -> Iterator[list[T]]:
    return (list(items[start : start + size]) for start in range(0, len(items), size))
