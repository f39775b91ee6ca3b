"""explain(): one record for each example of a corpus, a score for each of its words by each map."""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Bool, Float
from transformers import PreTrainedModel

from conoscope.batches import WINDOW, Batcher
from conoscope.bounds import POSITIVE, check
from conoscope.corpora import Corpus, Example, Texts, corpus_of
from conoscope.corpora.base import PEOPLE
from conoscope.errors import CorpusError, MeasureError, OutputError, one_of
from conoscope.explaining.base import Asked, Passed, asked
from conoscope.explaining.passes import Passes
from conoscope.explaining.words import WORD_SCORES, seen_words, word_scores
from conoscope.loading import LoadedModel, load_model
from conoscope.markup import cut
from conoscope.options import refuse_twice
from conoscope.pooling import chosen_pool
from conoscope.terminal import Progress, printable
from conoscope.textfiles import readable
from conoscope.writing import atomic_text

DEFAULT_MAPS = ("attention", "norms", "rollout")
DIGITS = 9


@dataclass(frozen=True)
class Explaining:
    """How to make maps: none of it changes a score, save `max_length`, `dtype`, `word_score` and `pool` (whose rows are read:
    first, last or mean; without it those of what the classifier reads, or of what the model's files say). Without a `device` and
    a `dtype`, a model is taken as it is, and a folder is loaded in float32, on a GPU where there is one."""

    device: str | None = None
    dtype: str | None = None
    batch_size: int = 16
    limit: int | None = None
    max_length: int | None = None
    word_score: str = "sum"
    pool: str | None = None
    progress: bool = False

    def __post_init__(self) -> None:
        check(self, batch_size=POSITIVE, limit=POSITIVE, max_length=POSITIVE)
        chosen_pool(self.pool)
        if self.word_score not in WORD_SCORES:
            raise MeasureError(f"no word score {self.word_score!r}; known: {one_of(WORD_SCORES)}")

    def refuse_without_model(self) -> None:
        """Refuse what would do nothing where scores come from files alone."""
        for name in ("device", "dtype", "max_length", "word_score", "pool"):
            if getattr(self, name) != getattr(Explaining(), name):
                raise MeasureError(f"{name} is for maps of a model, and no model is given; give one, or leave {name} out")


@dataclass(frozen=True)
class Explanation:
    """An example, what the model says of it, and a score for each whitespace word by each map.

    `seen` says which words the model was given; those that were cut off have NaN for a score.
    """

    example: Example
    predicted: str | None
    seen: Bool[np.ndarray, " w"]
    maps: Mapping[str, Float[np.ndarray, " w"]]
    model: str = ""
    marked_by: str = PEOPLE

    def record(self) -> dict[str, Any]:
        """What is written as a line of JSON; a word without a score has null, and so has an example that nobody marked."""
        example = self.example
        return {
            "id": example.id,
            "text": example.text,
            "pair": example.pair,
            "words": list(example.words),
            "label": example.label,
            "rationale": None if example.rationale is None else [int(marked) for marked in example.rationale],
            "marked_by": None if example.rationale is None else self.marked_by,
            "model": self.model,
            "predicted": self.predicted,
            "maps": {name: [_number(score) for score in scores] for name, scores in self.maps.items()},
        }

    def __str__(self) -> str:
        """A line for each word, a column for each map."""
        words = [cut(printable(word)) for word in self.example.words]
        widths = [max(len(name), 7) for name in self.maps]
        left = max((len(word) for word in words), default=0)
        head = "  ".join((" " * left, *(name.rjust(width) for name, width in zip(self.maps, widths, strict=True))))
        rows = zip(words, *self.maps.values(), strict=True)
        lines = ("  ".join((word.ljust(left), *map(_cell, scores, widths))) for word, *scores in rows)
        said = "" if self.predicted is None else f"\npredicted: {cut(printable(self.predicted))}"
        return "\n".join((head, *lines)) + said


def _cell(score: float, width: int) -> str:
    return ("-" if np.isnan(score) else f"{score:.4f}").rjust(width)


def _number(score: float) -> float | None:
    return float(f"{score:.{DIGITS}g}") if np.isfinite(score) else None


def texts_asked(corpus: Corpus | None, words: str | None, out: str | None) -> Corpus:
    """What the command line asks to be explained: a corpus, written to a file, or one text, printed."""
    if (corpus is None) == (words is None):
        raise CorpusError('nothing, or two things, to explain; give a corpus, or --words "the soup was not good"')
    if corpus is not None and out is None:
        raise OutputError("the maps of a corpus are written, not printed; give -o scores.jsonl")
    if words is not None and not words.split():
        raise CorpusError('--words has no words; give a text, as in --words "the soup was not good"')
    return Corpus.of([Example(words or "")], "words") if corpus is None else corpus


def explain(
    model: str | Path | PreTrainedModel | LoadedModel,
    texts: Texts,
    maps: Sequence[str] = DEFAULT_MAPS,
    options: Explaining | None = None,
) -> Iterator[Explanation]:
    """The maps of every example of a corpus, in its order, as they are made."""
    refuse_twice("map", maps)
    chosen, wanted = options or Explaining(), [asked(name) for name in maps]
    corpus = corpus_of(texts)
    loaded = load_model(model, device=chosen.device, dtype=chosen.dtype)
    batcher = loaded.batcher(corpus.unlabelled(), chosen.max_length)
    corpus = corpus.packed(loaded.length, batcher.max_length).first(chosen.limit)
    return _explained(loaded, corpus, batcher, wanted, chosen)


def _explained(
    loaded: LoadedModel, corpus: Corpus, batcher: Batcher, maps: Sequence[Asked], options: Explaining
) -> Iterator[Explanation]:
    examples = iter(corpus)
    with Passes(loaded, maps, options.pool) as passes, Progress(corpus.size, options.progress, "explained") as progress:
        while window := list(islice(examples, options.batch_size * WINDOW)):
            found: dict[int, Explanation] = {}
            for batch in batcher.batches(window, options.batch_size):
                texts = [window[place - 1] for place in batch.place.tolist()]
                made = _of_batch(texts, passes(batch), loaded, maps, options.word_score)
                found |= dict(zip(batch.place.tolist(), made, strict=True))
                progress.advance(len(texts))
            yield from (replace(found[place], marked_by=corpus.marked_by) for place in sorted(found))


def _of_batch(
    examples: Sequence[Example], passed: Passed, loaded: LoadedModel, maps: Sequence[Asked], how: str
) -> Iterator[Explanation]:
    counts = [len(example.words) for example in examples]
    by_map = {wanted.name: word_scores(wanted.scores(passed), passed.batch, counts, how) for wanted in maps}
    said = predicted_labels(passed, loaded.labels)
    seen = seen_words(passed.batch, max(counts))
    for row, (example, count) in enumerate(zip(examples, counts, strict=True)):
        scores = {name: rows[row] for name, rows in by_map.items()}
        yield Explanation(example, said[row], seen[row, :count], scores, readable(loaded.name))


def predicted_labels(passed: Passed, labels: Sequence[str]) -> list[str | None]:
    """The label that the model gives each text; None where it has less than two to choose from."""
    logits, rows = passed.logits, len(passed.batch.ids)
    return [None] * rows if logits is None or logits.shape[-1] < 2 else [labels[number] for number in logits.argmax(-1).tolist()]


def write_explanations(explanations: Iterable[Explanation], path: str | Path) -> int:
    """Write them as JSON lines; how many there were. What was there is replaced once all are written."""
    target = Path(path)
    count = 0
    try:
        with atomic_text(target) as file:
            for explanation in explanations:
                file.write(json.dumps(explanation.record(), ensure_ascii=False, allow_nan=False) + "\n")
                count += 1
    except OSError as error:
        raise OutputError(f"cannot write {target}: {error.strerror or error}; give -o another file") from error
    return count
