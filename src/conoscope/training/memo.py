"""Memo: what the trainings of one process share, so that nothing is read or tokenized twice."""

import hashlib
import json
from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterable
from typing import Any, TypeVar

from transformers import PreTrainedTokenizerBase

from conoscope.capture.loading import described_tokenizer
from conoscope.corpora import Example

Kept = TypeVar("Kept")
MOST = 12
"""Default number of things of each kind that are kept."""


class Memo:
    """Tokenizers, word vectors and encoded texts of earlier trainings, for trainings on equal corpora with equal settings.

    It changes no number. The `most` things of a kind that were used last are kept; files of vectors must not change meanwhile.
    """

    def __init__(self, most: int = MOST) -> None:
        self.most = most
        self.made = 0
        self._by_kind: dict[str, OrderedDict[Hashable, Any]] = {}

    def kept(self, kind: str, key: Hashable, make: Callable[[], Kept]) -> Kept:
        """What was made for an equal key of this kind, or else what `make` returns now."""
        things = self._by_kind.setdefault(kind, OrderedDict())
        if key not in things:
            things[key] = make()
            self.made += 1
        things.move_to_end(key)
        while len(things) > self.most:
            things.popitem(last=False)
        found: Kept = things[key]
        return found


def in_order(examples: Iterable[Example]) -> str:
    """A hash of some examples that depends on their order."""
    digest = hashlib.sha256()
    for example in examples:
        digest.update(example.digest.to_bytes(8, "little"))
    return digest.hexdigest()


def of_tokenizer(tokenizer: PreTrainedTokenizerBase) -> str:
    """A hash of all that decides how a tokenizer cuts a text into tokens, except the maximum length."""
    facts = (type(tokenizer).__name__, tokenizer.model_input_names, tokenizer.truncation_side, described_tokenizer(tokenizer))
    return hashlib.sha256(json.dumps(facts, sort_keys=True).encode()).hexdigest()
