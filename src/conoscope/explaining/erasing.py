"""Erasing: texts without a map's top words, and with those alone, and the model's predictions for them."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Float, Int

from conoscope.capture.batcher import Batcher
from conoscope.capture.loading import LoadedModel
from conoscope.common.bounds import COUNT, check
from conoscope.common.errors import MeasureError, ModelError, one_of
from conoscope.common.keywords import refuse_unknown_fields
from conoscope.corpora import Example
from conoscope.explaining.intervals import RESAMPLES
from conoscope.explaining.records import Explanation
from conoscope.explaining.selecting import share_of

BINS = (0.01, 0.05, 0.1, 0.2, 0.5)
"""The shares of words that are erased, or kept."""
METRICS = ("comprehensiveness", "sufficiency")
ERASE = ("remove", "mask")
Key = tuple[str, str | None]
"""A text and its pair."""


@refuse_unknown_fields
@dataclass(frozen=True)
class Erasing:
    """Options of `faithfulness()`: whether words are removed, or replaced by the mask token (without one, the unknown token); and
    the number of bootstrap resamples."""

    erase: str = "remove"
    resamples: int = RESAMPLES

    def __post_init__(self) -> None:
        check(self, resamples=COUNT)
        if self.erase not in ERASE:
            raise MeasureError(f"no way {self.erase!r} to erase words; known: {one_of(ERASE)}")

    def token(self, loaded: LoadedModel) -> str | None:
        """The token that replaces an erased word; None if words are removed."""
        if self.erase == "remove":
            return None
        token = loaded.tokenizer.mask_token or loaded.tokenizer.unk_token
        if token is None:
            raise ModelError(f"the tokenizer of {loaded.name} has neither a mask nor an unknown token; use --erase remove")
        return str(token)


@dataclass(frozen=True)
class Eraser:
    """Predicts texts with words erased; each distinct text is run once."""

    loaded: LoadedModel
    batcher: Batcher
    batch_size: int
    token: str | None

    def falls(self, explanations: Sequence[Explanation], names: Sequence[str]) -> Float[np.ndarray, "n m 2 bins"]:
        """The fall of the predicted class's probability, by example, map, metric and share of words.

        NaN where a map has no scores for the example, or erasing leaves no token for the model to read.
        """
        wholes = [self._whole(explanation) for explanation in explanations]
        erased = [[self._erased(explanation, name) for name in names] for explanation in explanations]
        distinct: dict[Key, Example] = {(e.text, e.pair): e for e in wholes}
        distinct |= {(e.text, e.pair): e for maps in erased for texts in maps for e in texts or () if self._is_readable(e)}
        probabilities = dict(zip(distinct, self.probabilities(list(distinct.values())), strict=True))
        unknown = np.full(len(self.loaded.labels), np.nan)
        falls = np.full((len(wholes), len(names), len(METRICS) * len(BINS)), np.nan)
        for place, (whole, maps) in enumerate(zip(wholes, erased, strict=True)):
            before = probabilities[whole.text, whole.pair]
            for which, texts in enumerate(maps):
                if texts:
                    after = np.stack([probabilities.get((e.text, e.pair), unknown) for e in texts])
                    falls[place, which] = before.max() - after[:, before.argmax()]
        return falls.reshape(*falls.shape[:2], len(METRICS), len(BINS))

    def _whole(self, explanation: Explanation) -> Example:
        """The example without the words that the model does not read (truncated)."""
        seen = explanation.seen
        return explanation.example if seen.all() else without(explanation.example, ~seen, None)

    def _erased(self, explanation: Explanation, name: str) -> list[Example] | None:
        """The text without the map's top words, for every share; then with those alone. None if the map has no scores for it."""
        scores = explanation.maps.get(name)
        if scores is None or np.isnan(scores[explanation.seen]).all():
            return None
        seen = np.flatnonzero(explanation.seen)
        whole = self._whole(explanation)
        order = ordered(scores[seen])
        firsts = [np.isin(np.arange(len(seen)), order[: share_of(len(seen), share)]) for share in BINS]
        return [without(whole, gone, self.token) for gone in (*firsts, *(~first for first in firsts))]

    def _is_readable(self, example: Example) -> bool:
        """Whether any token is left: some tokenizers turn an empty text into no token at all."""
        return bool(example.words) or self.loaded.tokenizer.num_special_tokens_to_add(pair=example.pair is not None) > 0

    def probabilities(self, examples: Sequence[Example]) -> Float[np.ndarray, "n c"]:
        """The model's class probabilities for each text."""
        rows = np.zeros((len(examples), len(self.loaded.labels)))
        for batch in self.batcher.batches(examples, self.batch_size):
            rows[batch.place.numpy() - 1] = self.loaded.answer(batch).double().softmax(-1).cpu().numpy()
        return rows


def ordered(scores: Float[np.ndarray, " w"]) -> Int[np.ndarray, " w"]:
    """The positions of words, the highest score first; ties in text order, words without a score last."""
    return np.argsort(-np.where(np.isnan(scores), -np.inf, scores), kind="stable")


def without(example: Example, gone: Bool[np.ndarray, " w"], token: str | None) -> Example:
    """The example with some words removed, or replaced by a token."""
    words = [token if out else word for word, out in zip(example.words, gone, strict=True)]
    first = len(example.text.split())
    text, pair = (" ".join(word for word in part if word is not None) for part in (words[:first], words[first:]))
    return Example(text, example.label, None if example.pair is None else pair, None, example.id)
