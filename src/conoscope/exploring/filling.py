"""Filling: what no open result has is found in the background: predictions of the first texts, and measures of fewer."""

import threading
import traceback
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
from jaxtyping import Float, Int

from conoscope.common.errors import ConoscopeError
from conoscope.common.terminal import say
from conoscope.corpora import Corpus, Example
from conoscope.exploring.corpus_list import CorpusList
from conoscope.exploring.opening import Opened, short_path
from conoscope.exploring.stopping import stoppable
from conoscope.exploring.yielding import Interrupted, Turns
from conoscope.results.result import Result

if TYPE_CHECKING:
    from conoscope.capture.loading import LoadedModel

PREDICTED = 1000
"""Of how many texts a model's answers are found."""
MEASURED = 300
"""How many texts are measured."""
PARTS = 20
"""In how many parts they are measured; a part that a request interrupts is measured again."""
BATCH = 8
TOKENS = 512
T = TypeVar("T")
MEASURES = ("class_cones:vectors=all", "sim", "attention_entropy", "gates")
"""What is measured; without labels, all but the first."""


@dataclass(frozen=True)
class Predictions:
    """The answers of one model to the first texts: the predicted class, its probability, and how far it is above the next one's.

    -1 and NaN for a text that is not yet read.
    """

    predicted: Int[np.ndarray, " n"]
    probability: Float[np.ndarray, " n"]
    margin: Float[np.ndarray, " n"]

    @classmethod
    def none(cls, count: int) -> "Predictions":
        """Of this many texts, none of them read."""
        return cls(np.full(count, -1), np.full(count, np.nan), np.full(count, np.nan))

    @property
    def done(self) -> int:
        """How many texts are read."""
        return int((self.predicted >= 0).sum())


class Filling:
    """Work in a thread of its own, step by step, between requests."""

    def __init__(self, opened: Opened, texts: CorpusList | None, turns: Turns) -> None:
        self.opened, self.texts, self.turns = opened, texts, turns
        self.measured: dict[int, Result] = {}
        self.predictions: dict[int, Predictions] = {}
        self.errors: list[str] = []
        self._tried: set[int] = set()
        self._share: tuple[str, int, int] | None = None
        self._thread: threading.Thread | None = None

    def start(self) -> None:
        """Begin, if it has not begun and there is anything to do."""
        if self._thread is None and self.texts is not None and self.opened.models:
            self._share = "reading texts", 0, MEASURED
            self._thread = threading.Thread(target=self._work, name="conoscope-filling", daemon=True)
            self._thread.start()

    @property
    def coming(self) -> list[int]:
        """The models of which there will be a result and is none yet: all that are not measured, where no results are open."""
        begun = self._thread is not None and not self.opened.results and self._share is not None
        return [number for number in range(len(self.opened.models)) if number not in self._tried] if begun else []

    def wait(self, seconds: float | None = None) -> None:
        """Wait until all is found."""
        if self._thread is not None:
            self._thread.join(seconds)

    @property
    def state(self) -> dict[str, Any] | None:
        """What is being done, how much of it is done, and of how much; None if there is nothing to wait for."""
        if self._share is None:
            return None
        return dict(zip(("doing", "done", "of"), self._share, strict=True))

    @property
    def doing(self) -> str | None:
        """What is being done or why it failed, in one line; None if nothing was begun."""
        if self._share is not None:
            return "{}, {} of {} texts; ask again in a moment".format(*self._share)
        return self.errors[0] if self.errors else None

    def _work(self) -> None:
        assert self.texts is not None
        try:
            self.texts.wait(PREDICTED)
            measurable = [] if self.opened.results else list(enumerate(self.opened.models))
            for number, loaded in measurable:
                self._guarded(self._measure, number, loaded)
                self._tried.add(number)
            for number, loaded in enumerate(self.opened.models):
                if len(loaded.labels) > 1:
                    self._guarded(self._predict, number, loaded)
        except Interrupted:
            pass  # the session is closed
        finally:
            self._share = None

    def _guarded(self, work: "Callable[[int, LoadedModel], None]", number: int, loaded: "LoadedModel") -> None:
        try:
            work(number, loaded)
        except ConoscopeError as error:
            self.errors.append(str(error))
        except Interrupted:
            raise
        except Exception as error:
            say(traceback.format_exc().rstrip(), error=True)
            self.errors.append(f"something went wrong ({type(error).__name__}); where conoscope runs, it says what")

    def _measure(self, number: int, loaded: "LoadedModel") -> None:
        """Measure the first texts in parts, each of which adds to the result so far."""
        from conoscope.measuring.pipeline import Options, measure

        assert self.texts is not None
        corpus = _labelled(self.texts)
        size = len(corpus)
        parts = max(1, min(PARTS, size // BATCH))
        measures = [name for name in MEASURES if corpus.labels or name != MEASURES[0]]
        whole: Result | None = None
        for part in range(1, parts + 1):
            options = Options(shard=(part, parts), batch_size=BATCH, max_length=TOKENS)
            self._share = f"measuring {short_path(loaded.name)}", (part - 1) * size // parts, size

            def step(check: Callable[[], None], options: Options = options) -> Result:
                with stoppable(loaded.module, check):
                    return measure(loaded, corpus, measures, options)

            found = self._uninterrupted(step)
            whole = found if whole is None else whole + found
            self.measured[number] = whole
            self._tried.add(number)

    def _predict(self, number: int, loaded: "LoadedModel") -> None:
        """Find the answers to the first texts, a batch at a time."""
        assert self.texts is not None
        examples = self.texts.examples[:PREDICTED]
        found = self.predictions[number] = Predictions.none(len(examples))
        batcher = loaded.batcher(Corpus.of([]), TOKENS)
        for begin in range(0, len(examples), BATCH):
            self._share = f"predicting with {short_path(loaded.name)}", begin, len(examples)
            some = examples[begin : begin + BATCH]

            def step(check: Callable[[], None], some: Sequence[Example] = some, begin: int = begin) -> None:
                with stoppable(loaded.module, check):
                    _answer(loaded, batcher, some, begin, found)

            self._uninterrupted(step)

    def _uninterrupted(self, step: Callable[[Callable[[], None]], T]) -> T:
        """What a step returns; it is taken again when a request came in between."""
        while True:
            try:
                with self.turns.step() as check:
                    return step(check)
            except Interrupted:
                if self.turns.closed:
                    raise


def _answer(loaded: "LoadedModel", batcher: Any, some: Sequence[Example], begin: int, found: Predictions) -> None:
    from conoscope.explaining.answers import shares

    rows = batcher.rows([(replace(example, label=None), place) for place, example in enumerate(some, begin + 1)])
    for batch in batcher.batches_of(rows, len(rows)):
        chances = shares(loaded.module, loaded.answer(batch)).cpu()
        at = batch.place.numpy() - 1
        largest = chances.topk(2, dim=-1)
        found.predicted[at] = largest.indices[:, 0].numpy()
        found.probability[at] = largest.values[:, 0].numpy()
        found.margin[at] = (largest.values[:, 0] - largest.values[:, 1]).numpy()


def _labelled(texts: CorpusList) -> Corpus:
    """The first labelled texts; if none is labelled, the first texts."""
    labelled = [example for example in texts.examples if example.label is not None]
    some = Corpus.of((labelled or texts.examples)[:MEASURED], str(texts.corpus))
    return replace(some, labels=texts.corpus.labels if labelled else ())
