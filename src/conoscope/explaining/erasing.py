"""Erasing: texts without the words that a map puts first, and with those alone, and what a model says of them."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Float, Int

from conoscope.capture.batcher import Batcher
from conoscope.capture.loading import LoadedModel
from conoscope.common.bounds import COUNT, check
from conoscope.common.errors import MeasureError, ModelError, one_of
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


@dataclass(frozen=True)
class Erasing:
    """How words are erased: removed from the text, or replaced by the token that stands for a hidden or unknown word."""

    erase: str = "remove"
    resamples: int = RESAMPLES

    def __post_init__(self) -> None:
        check(self, resamples=COUNT)
        if self.erase not in ERASE:
            raise MeasureError(f"no way {self.erase!r} to erase words; known: {one_of(ERASE)}")

    def token(self, loaded: LoadedModel) -> str | None:
        """What stands for an erased word; None where it is removed."""
        if self.erase == "remove":
            return None
        found = loaded.tokenizer.mask_token or loaded.tokenizer.unk_token
        if found is None:
            raise ModelError(f"the tokenizer of {loaded.name} has neither a mask nor an unknown token; use --erase remove")
        return str(found)


@dataclass(frozen=True)
class Eraser:
    """A model that is asked about texts with words erased, each different one once."""

    loaded: LoadedModel
    batcher: Batcher
    batch_size: int
    token: str | None

    def falls(self, explanations: Sequence[Explanation], names: Sequence[str]) -> Float[np.ndarray, "n m 2 bins"]:
        """How far the predicted class's probability falls: by example, map, metric and share of words; NaN where a map has no
        scores of the example, or nothing is left of the text that the model could read."""
        wholes = [self._whole(explanation) for explanation in explanations]
        erased = [[self._erased(explanation, name) for name in names] for explanation in explanations]
        asked: dict[Key, Example] = {(e.text, e.pair): e for e in wholes}
        asked |= {(e.text, e.pair): e for maps in erased for texts in maps for e in texts or () if self._is_readable(e)}
        said = dict(zip(asked, self.probabilities(list(asked.values())), strict=True))
        unknown = np.full(len(self.loaded.labels), np.nan)
        found = np.full((len(wholes), len(names), len(METRICS) * len(BINS)), np.nan)
        for place, (whole, maps) in enumerate(zip(wholes, erased, strict=True)):
            sure = said[whole.text, whole.pair]
            for which, texts in enumerate(maps):
                if texts:
                    left = np.stack([said.get((e.text, e.pair), unknown) for e in texts])
                    found[place, which] = sure.max() - left[:, sure.argmax()]
        return found.reshape(*found.shape[:2], len(METRICS), len(BINS))

    def _whole(self, explanation: Explanation) -> Example:
        """The text as far as the model sees it."""
        seen = explanation.seen
        return explanation.example if seen.all() else without(explanation.example, ~seen, None)

    def _erased(self, explanation: Explanation, name: str) -> list[Example] | None:
        """The text without the first words of a map's order, for every share; then with those alone."""
        scores = explanation.maps.get(name)
        if scores is None or np.isnan(scores[explanation.seen]).all():
            return None
        seen = np.flatnonzero(explanation.seen)
        whole = self._whole(explanation)
        order = ordered(scores[seen])
        firsts = [np.isin(np.arange(len(seen)), order[: share_of(len(seen), share)]) for share in BINS]
        return [without(whole, gone, self.token) for gone in (*firsts, *(~first for first in firsts))]

    def _is_readable(self, example: Example) -> bool:
        """Whether any token is left: some tokenizers make none of an empty text."""
        return bool(example.words) or self.loaded.tokenizer.num_special_tokens_to_add(pair=example.pair is not None) > 0

    def probabilities(self, examples: Sequence[Example]) -> Float[np.ndarray, "n c"]:
        """What the model makes of each text: a probability for each class."""
        found = np.zeros((len(examples), len(self.loaded.labels)))
        for batch in self.batcher.batches(examples, self.batch_size):
            found[batch.place.numpy() - 1] = self.loaded.answer(batch).double().softmax(-1).cpu().numpy()
        return found


def ordered(scores: Float[np.ndarray, " w"]) -> Int[np.ndarray, " w"]:
    """The places of words, the highest score first; equal ones as they stand, and those without a score last."""
    return np.argsort(-np.where(np.isnan(scores), -np.inf, scores), kind="stable")


def without(example: Example, gone: Bool[np.ndarray, " w"], token: str | None) -> Example:
    """The example with some words removed, or replaced by a token."""
    words = [token if out else word for word, out in zip(example.words, gone, strict=True)]
    first = len(example.text.split())
    text, pair = (" ".join(word for word in part if word is not None) for part in (words[:first], words[first:]))
    return Example(text, example.label, None if example.pair is None else pair, None, example.id)
