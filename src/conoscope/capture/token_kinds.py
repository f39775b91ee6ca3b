"""Token kinds: [CLS], [SEP], another special token, a punctuation mark, any other token, or one of the user's own kinds."""

import unicodedata
from collections.abc import Mapping, Sequence

import torch
from jaxtyping import Bool, Int
from torch import Tensor
from transformers import PreTrainedTokenizerBase

from conoscope.common.vocabulary import KINDS

CLS, SEP, SPECIAL, PUNCTUATION, OTHER, PAD = 0, 1, 2, 3, 4, -1


class Kinds:
    """The kind of every token of one tokenizer. `own`: the user's kinds (name to words); special tokens have none of these."""

    def __init__(self, tokenizer: PreTrainedTokenizerBase, unknown: int, own: Mapping[str, Sequence[str]] | None = None) -> None:
        self.tokenizer = tokenizer
        self.names = (*KINDS, *(own or {}))
        self.spelling: dict[int, str] = {}
        self._special = {*tokenizer.all_special_ids} - {unknown}
        self._own = {word.casefold(): number for number, words in enumerate((own or {}).values(), len(KINDS)) for word in words}
        self._known: dict[int, tuple[int, int]] = {}

    def of(self, ids: Int[Tensor, "b t"], real: Bool[Tensor, "b t"]) -> tuple[Int[Tensor, "b t"], Int[Tensor, "b t"]]:
        """The kind of each token as an index into KINDS, and as an index into `names`, with the user's kinds; -1 for padding."""
        distinct, where = ids.unique(return_inverse=True)
        both = torch.tensor([self._kind_and_name(token) for token in distinct.tolist()], dtype=torch.long).reshape(-1, 2)
        kind, named = (numbers[where].where(real, PAD) for numbers in both.unbind(-1))
        return kind, named

    def _kind_and_name(self, token: int) -> tuple[int, int]:
        if token not in self._known:
            text = self.spelling[token] = self.tokenizer.decode([token])
            kind = self._special_kind(token) if token in self._special else PUNCTUATION if is_punctuation(text) else OTHER
            # A continuation such as ##not in knot is not the word.
            word = text.strip().casefold()
            self._known[token] = kind, kind if token in self._special else self._own.get(word, kind)
        return self._known[token]

    def _special_kind(self, token: int) -> int:
        tokenizer = self.tokenizer
        first = tokenizer.bos_token_id if tokenizer.cls_token_id is None else tokenizer.cls_token_id
        last = tokenizer.eos_token_id if tokenizer.sep_token_id is None else tokenizer.sep_token_id
        return CLS if token == first else SEP if token == last else SPECIAL


def is_punctuation(text: str) -> bool:
    """Whether a text is only punctuation, as BERT defines it: ASCII except letters, digits and spaces, and Unicode's P."""
    marks = text.strip().removeprefix("##")
    return bool(marks) and all(
        (c.isascii() and c.isprintable() and not c.isalnum()) or unicodedata.category(c)[0] == "P" for c in marks
    )
