"""Batches: what a model reads of some examples, and what we know of every token."""

from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from functools import cached_property
from itertools import count, groupby
from typing import Any, TypeVar

import numpy as np
import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor
from transformers import BatchEncoding, PreTrainedTokenizerBase

from conoscope.capture.class_token import ONE_TOKEN, Reading, side_by_side
from conoscope.capture.token_kinds import KINDS, OTHER, PAD, SPECIAL, Kinds
from conoscope.common.errors import CorpusError, ModelError
from conoscope.corpora.base import Example, stable_hash

WINDOW = 32
"""How many batches of examples are sorted by length together, so that little is padded."""
NO_PAD = -1
"""Named as padding where nothing is padded: no token has this id."""
T = TypeVar("T")


class Once:
    """Something that remembers what was computed of it."""

    @cached_property
    def found(self) -> dict[Hashable, Any]:
        """All that was computed."""
        return {}

    def once(self, key: Hashable, compute: Callable[[], Any]) -> Any:
        """What `compute` answers, computed only once."""
        if key not in self.found:
            self.found[key] = compute()
        return self.found[key]


@dataclass(frozen=True)
class Batch(Once):
    """The model's inputs and, for each token, what it is.

    `real`: not padding. `kind`: an index into KINDS, -1 on pads; `named`: the same into `kinds`, which has the user's own
    as well. `unknown`: out of the vocabulary. `word`: which
    whitespace word of the example the token ends in, -1 for none. `cls`: where the classifying token stands in each
    row, -1 where there is none. `label`: an index into the model's labels, -1 where there is none, of `classes` in all.
    `place`: the example's number in the corpus. `spelling`: the text of every token id. `frequency`: the rank of each token
    by a given list of frequencies, where there is one. `texts`: what each example says, the second text of a pair after " / ".
    `pad`: what the model's configuration must name as padding for the time of a pass; None where it names its own. `reads`:
    whether `cls` is where the model was found to read.
    """

    inputs: Mapping[str, Tensor]
    real: Bool[Tensor, "b t"]
    kind: Int[Tensor, "b t"]
    named: Int[Tensor, "b t"]
    unknown: Bool[Tensor, "b t"]
    word: Int[Tensor, "b t"]
    cls: Int[Tensor, " b"]
    label: Int[Tensor, " b"]
    place: Int[Tensor, " b"]
    ids: tuple[str, ...]
    classes: int = 0
    spelling: Mapping[int, str] = field(default_factory=dict, repr=False)
    kinds: tuple[str, ...] = KINDS
    frequency: Float[Tensor, "b t"] | None = None
    texts: tuple[str, ...] = field(default=(), repr=False)
    pad: int | None = None
    reads: bool = False

    @classmethod
    def of_ids(cls, input_ids: Int[Tensor, "b t"], real: Bool[Tensor, "b t"], at: Int[Tensor, " b"] | None = None) -> "Batch":
        """A batch from bare token ids, every token an ordinary one; `at` says where the classifying token stands."""
        rows = len(input_ids)
        none = torch.full((rows,), -1, device=input_ids.device)
        return cls(
            inputs={"input_ids": input_ids, "attention_mask": real.long()},
            real=real,
            kind=(kind := torch.where(real, OTHER, PAD)),
            named=kind,
            unknown=torch.zeros_like(real),
            word=torch.full_like(input_ids, -1),
            cls=none if at is None else at,
            label=none,
            place=torch.arange(1, rows + 1, device=input_ids.device),
            ids=tuple(str(row) for row in range(rows)),
        )

    @cached_property
    def content(self) -> Bool[Tensor, "b t"]:
        """Real tokens that are neither special nor out of the vocabulary."""
        return self.real & ~self.special & ~self.unknown

    @cached_property
    def special(self) -> Bool[Tensor, "b t"]:
        """[CLS], [SEP] and their like."""
        return self.real & (self.kind <= SPECIAL)

    def to(self, device: torch.device) -> "Batch":
        """The same batch on another device."""
        moved = {f.name: getattr(self, f.name).to(device) for f in fields(self) if isinstance(getattr(self, f.name), Tensor)}
        return replace(self, inputs={name: tensor.to(device) for name, tensor in self.inputs.items()}, **moved)

    @cached_property
    def example_ranks(self) -> Int[Tensor, " b"]:
        """A hash of each example's id: what a sample of examples goes by."""
        return mixed(torch.tensor([stable_hash(name) for name in self.ids], device=self.real.device))

    @cached_property
    def token_ranks(self) -> Int[Tensor, "b t"]:
        """A hash of each token's example and place in it, wherever the padding is: what a sample of tokens goes by."""
        return mixed(self.example_ranks[:, None] + self.real.cumsum(-1))


@dataclass(frozen=True)
class Known:
    """What the user tells of tokens: kinds of their own, as words by name, and ranks of frequency by token id."""

    kinds: Mapping[str, Sequence[str]] = field(default_factory=dict)
    ranks: Float[Tensor, " v"] | None = None


class Batcher:
    """Turns examples into batches with one tokenizer, padded as the model reads them, whatever the tokenizer's own habit."""

    def __init__(
        self,
        tokenizer: PreTrainedTokenizerBase,
        labels: Mapping[str, int],
        limits: tuple[int, int],
        reading: Reading,
        known: Known | None = None,
    ) -> None:
        """`limits`: the longest input in tokens, and how many token ids the model knows; `reading`: how the model reads."""
        self.tokenizer, self.labels, self.reading = tokenizer, labels, reading
        self.max_length, self.vocabulary = limits
        self.truncated = 0
        self.known = known or Known()
        self._kinds = Kinds(tokenizer, self._unknown_id, self.known.kinds)

    def batches(self, examples: Iterable[Example], size: int, places: Iterable[int] | None = None) -> Iterator[Batch]:
        """Batches of `size` examples of like length; the order of the examples is not kept. `places`: their numbers."""
        numbered = list(zip(examples, count(1) if places is None else places, strict=False))
        for alike in ([p for p in numbered if p[0].pair is None], [p for p in numbered if p[0].pair is not None]):
            for together in self._together(alike, size):
                chosen, numbers = zip(*together, strict=True)
                yield replace(self.batch(chosen), place=torch.tensor(numbers))

    def _together(self, numbered: Sequence[tuple[Example, int]], size: int) -> Iterator[list[tuple[Example, int]]]:
        """The examples of each batch: of like length, or of one length where nothing can be padded."""
        if self.reading.side is not None:
            ordered = sorted(numbered, key=lambda pair: len(pair[0].text) + len(pair[0].pair or ""))
            for chosen in _cut(ordered, size):
                yield from [chosen] if self._paddable(chosen) else self._by_length(chosen, size)
        else:
            yield from self._by_length(numbered, size)

    def _by_length(self, numbered: Sequence[tuple[Example, int]], size: int) -> Iterator[list[tuple[Example, int]]]:
        lengths = [len(ids) for ids in self._encoded([example for example, _ in numbered])["input_ids"]] if numbered else []
        ordered = sorted(zip(lengths, numbered, strict=True), key=lambda found: found[0])
        for _, alike in groupby(ordered, key=lambda found: found[0]):
            yield from _cut([pair for _, pair in alike], size)

    def _paddable(self, numbered: Sequence[tuple[Example, int]]) -> bool:
        """Whether there is a token to pad these examples with."""
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
            frequency=None if self.known.ranks is None else self.known.ranks[ids],
            texts=tuple(e.text if e.pair is None else f"{e.text} / {e.pair}" for e in examples),
            pad=pad if self.reading.pad is None else None,
            reads=self.reading.place in ONE_TOKEN,
        )

    def _encoded(self, examples: Sequence[Example]) -> BatchEncoding:
        """The tokens of these examples, each row as long as it is."""
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
        """The token to pad with: the one that the model's configuration names, or else one that is in none of the rows."""
        if self.reading.pad is not None:
            return self.reading.pad
        there = {token for row in rows for token in row}
        return next((token for token in range(self.vocabulary) if token not in there), NO_PAD)

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
        """The id that means only "unknown" (GPT-2's stands for the end of a text as well)."""
        tokenizer = self.tokenizer
        shared = {tokenizer.eos_token_id, tokenizer.bos_token_id, tokenizer.pad_token_id}
        unknown = tokenizer.unk_token_id
        return -1 if unknown is None or unknown in shared else int(unknown)

    def _cls(self, ids: Int[Tensor, "b t"], real: Bool[Tensor, "b t"]) -> Int[Tensor, " b"]:
        """Where the class is read; [CLS] in a model that reads several tokens, or none."""
        read = self.reading.at(ids, real)
        return torch.where(read >= 0, read, place_of(self.tokenizer.cls_token_id, ids, real))


def _cut(things: Sequence[T], size: int) -> Iterator[list[T]]:
    return (list(things[start : start + size]) for start in range(0, len(things), size))


def mixed(x: Int[Tensor, "*s"]) -> Int[Tensor, "*s"]:
    """63 bits that look random, the same ones for the same number (the finalizer of splitmix64)."""
    for shift, factor in ((30, -0x40A7B892E31B1A47), (27, -0x6B2FB644ECCEEE15)):
        x = (x ^ ((x >> shift) & ((1 << (64 - shift)) - 1))) * factor
    return (x ^ ((x >> 31) & ((1 << 33) - 1))) & torch.iinfo(torch.int64).max


def place_of(token: int | None, ids: Int[Tensor, "b t"], real: Bool[Tensor, "b t"]) -> Int[Tensor, " b"]:
    """Where a token first stands in each row, -1 for nowhere."""
    here = real & (ids == (-1 if token is None else token))
    return torch.where(here.any(-1), here.int().argmax(-1), -1)


def words_of(example: Example, offsets: np.ndarray, sequence: Sequence[int | None]) -> np.ndarray:
    """For each token, the number of the whitespace word that holds its last character."""
    which = np.array([-1 if text is None else text for text in sequence])
    starts, ends = offsets[:, 0], offsets[:, 1]
    words, first = np.full(len(offsets), -1), 0
    for number, text in enumerate((example.text, example.pair or "")):
        of_text = (which == number) & (ends > starts)
        words[of_text] = _word_of_character(text, first)[ends[of_text] - 1]
        first = len(text.split())
    return words


def _word_of_character(text: str, first: int) -> np.ndarray:
    """For each character, the number of its whitespace word, counted from `first`; -1 on white space."""
    space = np.fromiter((c.isspace() for c in text), dtype=bool, count=len(text))
    starts = ~space & np.concatenate(([True], space[:-1])) if len(text) else space
    return np.where(space, -1, first + np.cumsum(starts) - 1)
