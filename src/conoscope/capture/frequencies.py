"""Token frequencies from a user's file."""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor
from transformers import PreTrainedTokenizerBase

from conoscope.common.errors import CorpusError, one_of
from conoscope.corpora.base import Notes
from conoscope.corpora.tables import rows

KEYS, VALUES = ("id", "token"), ("rank", "count")


def load_ranks(path: str | Path, tokenizer: PreTrainedTokenizerBase, vocabulary: int) -> Float[Tensor, " v"]:
    """A rank for each of `vocabulary` token ids, 1 for the most frequent; tokens that the file does not list come last.

    The file is .csv, .tsv, .jsonl or .parquet, with a column `id` or `token` and a column `rank` or `count`.
    """
    known = tokenizer.get_vocab()
    listed: dict[int, float] = {}
    for line, token, number in _listed(Path(path), known):
        if token in listed:
            raise CorpusError(f"{path}:{line}: the token {token} is listed already; leave one of its rows out")
        if token < vocabulary:
            listed[token] = number
    if not listed:
        raise CorpusError(f"{path} lists no token that the model knows; check whether it is of another tokenizer")
    ranks = torch.full((vocabulary,), max(listed.values()) + 1, dtype=torch.float64)
    ranks[torch.tensor(list(listed))] = torch.tensor(list(listed.values()), dtype=torch.float64)
    return ranks


def _listed(path: Path, known: Mapping[str, int]) -> Iterator[tuple[int, int, float]]:
    """The line, the token id and its rank; a count is negated to rank tokens. The first row decides which columns are read."""
    key: str | None = None
    value: str | None = None
    for line, row in rows(path, Notes()):
        key = key or next((name for name in KEYS if name in row), None)
        value = value or next((name for name in VALUES if name in row), None)
        if key is None or value is None:
            raise CorpusError(f"{path} has the columns {one_of(row)}; it needs {' or '.join(KEYS)}, and {' or '.join(VALUES)}")
        number = _number(path, line, row.get(value))
        token = known.get(str(row.get(key))) if key == "token" else _id(path, line, row.get(key))
        if token is not None:
            yield line, token, number if value == "rank" else -number


def _id(path: Path, line: int, text: Any) -> int:
    number = _number(path, line, text)
    if number < 0 or number != int(number):
        raise CorpusError(f"{path}:{line}: {text!r} is no token id; correct the row")
    return int(number)


def _number(path: Path, line: int, text: Any) -> float:
    try:
        number = float(text)
    except (TypeError, ValueError):
        number = float("nan")
    if not abs(number) < float("inf"):
        raise CorpusError(f"{path}:{line}: {text!r} is not a number; correct the row")
    return number
