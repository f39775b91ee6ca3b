"""Examples as token ids, encoded once for all epochs, and their batches, with the token marks that penalties need."""

from collections.abc import Hashable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import torch
from jaxtyping import Int
from torch import Tensor
from torch.utils.data import Dataset
from transformers import PreTrainedTokenizerBase

from conoscope.capture.alignment import place_of, words_of
from conoscope.capture.class_token import Reading, Side, side_by_side
from conoscope.common.errors import CorpusError, one_of
from conoscope.corpora import Corpus, Example
from conoscope.corpora.base import digest_of
from conoscope.training.memo import Memo, in_order, of_tokenizer
from conoscope.training.penalties import Marks

MARKED, SPECIAL = "marked", "special_tokens_mask"
UNANNOTATED = -1
"""The mark of tokens in texts that nobody annotated, and of pads."""


class Encoded(Dataset[dict[str, Any]]):
    """Dataset of a corpus's labelled examples: token ids and label numbers, with rationale marks if `marks` is set.

    With a memo, equal examples are encoded once in all.
    """

    def __init__(
        self,
        corpus: Corpus,
        labels: Mapping[str, int],
        tokenizer: PreTrainedTokenizerBase,
        max_length: int,
        marks: bool = False,
        memo: Memo | None = None,
    ) -> None:
        if unknown := set(corpus.labels) - set(labels):
            raise CorpusError(f"{corpus} has the label {one_of(unknown)}, which is not among those to learn: {one_of(labels)}")
        learned = labelled(corpus)
        self.name, self.digest = str(corpus), digest_of(learned)
        self.marked = sum(any(example.rationale or ()) for example in learned)

        def rows() -> list[dict[str, Any]]:
            encoded = (_encoded(example, tokenizer, max_length, marks) for example in learned)
            return [{**row, "labels": labels[str(example.label)]} for row, example in zip(encoded, learned, strict=True)]

        def key() -> Hashable:
            return in_order(learned), of_tokenizer(tokenizer), tuple(labels.items()), max_length, marks

        self.rows = rows() if memo is None else memo.kept("rows", key(), rows)
        if not self.rows:
            raise CorpusError(f"{corpus} has no labelled example; training needs some to learn from and some to stop by")

    def __len__(self) -> int:
        return len(self.rows)

    def __getitem__(self, index: int) -> dict[str, Any]:
        return self.rows[index]


def missing_classes(splits: Mapping[str, Encoded], labels: Sequence[str]) -> Iterator[str]:
    """A line for each split that has no text of some class."""
    for name, encoded in splits.items():
        there = {row["labels"] for row in encoded.rows}
        if missing := [label for number, label in enumerate(labels) if number not in there]:
            cannot = "learned" if name == "train" else "scored"
            yield f"none of the {len(encoded)} texts of {name} has the label {one_of(missing)}, which cannot be {cannot} there"


def labelled(corpus: Corpus) -> list[Example]:
    """The examples that have a label."""
    return [example for example in corpus if example.label is not None]


def texts_of(example: Example) -> tuple[str, ...]:
    """The text of an example, or both texts of a pair."""
    return (example.text,) if example.pair is None else (example.text, example.pair)


def _encoded(example: Example, tokenizer: PreTrainedTokenizerBase, max_length: int, marks: bool) -> dict[str, Any]:
    row = tokenizer(
        *texts_of(example),
        truncation=True,
        max_length=max_length,
        return_special_tokens_mask=marks,
        return_offsets_mapping=marks,
    )
    if not row["input_ids"]:
        raise CorpusError(f"{example.id}: the text {example.text!r} gives no token; take it out")
    if not marks:
        return dict(row)
    words = words_of(example, np.array(row.pop("offset_mapping")), row.sequence_ids(0))
    flags = example.rationale
    row = dict(row)
    row[MARKED] = [UNANNOTATED if flags is None else int(word >= 0 and flags[word]) for word in words.tolist()]
    return row


class Collator:
    """Data collator that pads on the side the model expects, by default on the right, including the marks of tokens.

    `multiple`: batches are as long as a multiple of it.
    """

    def __init__(self, tokenizer: PreTrainedTokenizerBase, reading: Reading | None = None, multiple: int = 1) -> None:
        self.multiple = multiple
        self.side: Side = "right" if reading is None or reading.side is None else reading.side
        self.pads = {
            "input_ids": tokenizer.pad_token_id if reading is None or reading.pad is None else reading.pad,
            "token_type_ids": tokenizer.pad_token_type_id,
            SPECIAL: 1,
            MARKED: UNANNOTATED,
        }

    def __call__(self, rows: Sequence[Mapping[str, Any]]) -> dict[str, Tensor]:
        """One padded batch; `marked` is -1 on pads. The tokenizer's own padding would take a quarter of a small model's time."""
        padded = {
            name: side_by_side([row[name] for row in rows], self.pads.get(name, 0), self.side, self.multiple)
            for name in rows[0]
            if name != "labels"
        }
        return {**padded, "labels": torch.tensor([row["labels"] for row in rows])}


def by_length(batch: Mapping[str, Tensor]) -> Iterator[tuple[Int[Tensor, " n"], dict[str, Tensor]]]:
    """The rows of a right-padded batch grouped by length, without padding: their indices, and the inputs of the group."""
    lengths = batch["attention_mask"].sum(-1)
    for length in lengths.unique().tolist():
        rows = (lengths == length).nonzero()[:, 0]
        yield rows, {name: value[rows, :length] if value.ndim == 2 else value[rows] for name, value in batch.items()}


def split_off_marks(batch: dict[str, Tensor], tokenizer: PreTrainedTokenizerBase) -> tuple[dict[str, Tensor], Marks]:
    """The model's inputs, and the marks of its tokens."""
    inputs = {name: value for name, value in batch.items() if name not in (MARKED, SPECIAL)}
    ids, real = batch["input_ids"], batch["attention_mask"].bool()
    return inputs, Marks(real, real & ~batch[SPECIAL].bool(), place_of(tokenizer.cls_token_id, ids, real), batch[MARKED])
