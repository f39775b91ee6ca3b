"""The splits to train with, of what `train` is given: a name, a file, a folder, texts in any form, or a dictionary of splits."""

import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from conoscope.common.bounds import POSITIVE, check
from conoscope.common.errors import CorpusError, one_of
from conoscope.corpora import Columns, Corpus, Texts, corpus_of, splits_of
from conoscope.corpora.cutting import in_two


@dataclass(frozen=True)
class Part:
    """How many texts of each split are used: the first `limit`, or all."""

    limit: int | None = None

    def __post_init__(self) -> None:
        check(self, limit=POSITIVE)

    def of(self, splits: Mapping[str, Corpus]) -> dict[str, Corpus]:
        """The first texts of each split."""
        return {name: split.first(self.limit) for name, split in splits.items()}


def splits_to_train(given: Mapping[str, Texts] | Texts, columns: Columns, seed: int, held_out: Texts | None) -> dict[str, Corpus]:
    """Corpora by split; where none is given for validation, it is a tenth of train, set aside by hash."""
    if isinstance(given, str | os.PathLike) and (held_out is None or isinstance(held_out, str | os.PathLike)):
        return splits_of(given, columns, seed, validation=held_out)
    if isinstance(given, str | os.PathLike):
        found = splits_of(given, columns, seed)
    elif isinstance(given, Mapping) and columns.text not in given:
        found = {str(name): corpus_of(texts, _for(texts, columns)) for name, texts in given.items()}
        _refuse_without_train(found)
    else:
        whole = corpus_of(given, columns)
        found = in_two(whole, seed) if held_out is None else {"train": whole}
    return found if held_out is None else {**found, "validation": corpus_of(held_out, _for(held_out, columns))}


def _for(texts: Any, columns: Columns) -> Columns | None:
    """The columns, but not for what has none: a corpus."""
    return None if isinstance(texts, Corpus) else columns


def _refuse_without_train(found: Mapping[str, Corpus]) -> None:
    if "train" not in found:
        raise CorpusError(f"no split 'train' to train with; there is {one_of(found)}; give one, and validation to stop by")
