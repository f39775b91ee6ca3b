"""explain(): for each text one Explanation, with a score per word and map and the probabilities of the classes."""

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, overload

import numpy as np
from jaxtyping import Bool, Float

from conoscope.capture.batcher import WINDOW, Batcher
from conoscope.capture.loading import LoadedModel, ModelSource, load_model
from conoscope.capture.order import refuse_swapped
from conoscope.common.bounds import POSITIVE, check
from conoscope.common.errors import MeasureError, OutputError, one_of
from conoscope.common.keywords import names_in, nearest, options_from, refuse_unknown_fields, with_keywords
from conoscope.common.markup import Html, cut, joined
from conoscope.common.options import refuse_twice
from conoscope.common.pooling import chosen_pool
from conoscope.common.terminal import Progress, printable
from conoscope.common.textfiles import readable
from conoscope.common.writing import atomic_text
from conoscope.corpora import Columns, Corpus, Example, Texts, corpus_of, is_text
from conoscope.corpora.base import PEOPLE
from conoscope.explaining.answers import predicted_labels, probabilities
from conoscope.explaining.base import METHODS, ForwardPass, Request, request
from conoscope.explaining.html import coloured_words, write_page
from conoscope.explaining.passes import Passes
from conoscope.explaining.words import WORD_SCORES, seen_words, word_scores

if TYPE_CHECKING:
    import pandas as pd

SHOWN = 5
"""How many explanations a notebook shows of a corpus."""
DEFAULT_MAPS = ("attention", "norms", "rollout")
DIGITS = 9


@refuse_unknown_fields
@dataclass(frozen=True)
class Explaining:
    """Options of `explain()`. Only `max_length`, `dtype`, `word_score` and `pool` change scores.

    `pool`: which rows are read (first, last or mean); by default those of the vector that the classifier reads, or that the
    model's files name. Without `device` and `dtype`, a model in memory is used as it is, and a folder is loaded in float32, on a
    GPU if there is one.
    """

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
        """Refuse options that have no effect when all scores come from files."""
        for name in ("device", "dtype", "max_length", "word_score", "pool"):
            if getattr(self, name) != getattr(Explaining(), name):
                raise MeasureError(f"{name} is for maps of a model, and no model is given; give one, or leave {name} out")


@dataclass(frozen=True)
class Explanation:
    """An example, the label that the model predicts, and one score per whitespace word and map.

    `explanation["attention"]` has the scores of `explanation.words`. `seen`: which words the model read; truncated words have NaN
    as their score. `probabilities`: of each label; empty for a model that does not classify.
    """

    example: Example
    predicted: str | None
    seen: Bool[np.ndarray, " w"]
    maps: Mapping[str, Float[np.ndarray, " w"]]
    model: str = ""
    marked_by: str = PEOPLE
    probabilities: Mapping[str, float] = field(default_factory=dict)

    @property
    def words(self) -> tuple[str, ...]:
        """The whitespace words of the text, then of its pair."""
        return self.example.words

    @property
    def table(self) -> "pd.DataFrame":
        """A row for each word, a column for each map."""
        import pandas as pd

        return pd.DataFrame({"word": self.words, **self.maps})

    def __getitem__(self, name: str) -> Float[np.ndarray, " w"]:
        if name not in self.maps:
            near, more = nearest(str(name), {**self.maps, **METHODS}), ""
            if not nearest(str(name), self.maps):
                more = "; ask for others, as in explain(model, text, ['attention', 'gradient'])"
            raise MeasureError(f"the map {name!r} was not made{near}; made: {one_of(self.maps)}{more}")
        return self.maps[name]

    def __repr__(self) -> str:
        return str(self)

    def _repr_html_(self) -> str:
        """The HTML that a notebook shows: the words, coloured by their scores."""
        return self.html()

    def html(self) -> str:
        """The words, coloured by their scores, as HTML; whatever the text holds is escaped."""
        return coloured_words(self.words, self.maps, self.predicted, self.probabilities)

    def save(self, path: str | Path) -> Path:
        """Write the coloured words as an HTML page."""
        return write_page(self.html(), path)

    def record(self) -> dict[str, Any]:
        """The explanation as one JSON line; null stands for a word without a score and for an example without rationale."""
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
        return "\n".join((head, *lines, *self._prediction()))

    def _prediction(self) -> Iterator[str]:
        """The line that says what the model predicts, with the probabilities."""
        if self.predicted is not None:
            each = ", ".join(f"{cut(printable(label))} {p:.3f}" for label, p in self.probabilities.items())
            yield f"predicted: {cut(printable(self.predicted))}" + (f" ({each})" if each else "")


def _cell(score: float, width: int) -> str:
    return ("-" if np.isnan(score) else f"{score:.4f}").rjust(width)


def _number(score: float) -> float | None:
    return float(f"{score:.{DIGITS}g}") if np.isfinite(score) else None


@dataclass(frozen=True)
class Explanations:
    """The explanations of a corpus, in its order: computed while they are read, and anew each time."""

    corpus: Corpus
    maps: tuple[str, ...]
    read: Callable[[], Iterator[Explanation]] = field(repr=False)

    def __iter__(self) -> Iterator[Explanation]:
        return self.read()

    def __len__(self) -> int:
        return len(self.corpus)

    @overload
    def __getitem__(self, place: int) -> Explanation: ...

    @overload
    def __getitem__(self, place: slice) -> list[Explanation]: ...

    def __getitem__(self, place: int | slice) -> Explanation | list[Explanation]:
        """The explanation of one text, by its number from 0, or of a slice of the texts; computed anew, with those before it."""
        if isinstance(place, slice):
            return list(self)[place]
        if isinstance(place, bool) or not isinstance(place, int):
            raise MeasureError(
                f"{place!r} is no number of a text; these are explanations of several, as in explained[0]['attention']"
            )
        number = place + len(self) if place < 0 else place
        for found in islice(self, number, number + 1) if number >= 0 else ():
            return found
        raise IndexError(f"no explanation {place}: there are {len(self)}, counted from 0")

    def __repr__(self) -> str:
        size = "" if self.corpus.size is None else f", {self.corpus.size} {'text' if self.corpus.size == 1 else 'texts'}"
        return printable(f"<Explanations of {self.corpus}{size}, by {', '.join(self.maps)}: computed while you iterate>")

    def _repr_html_(self) -> str:
        """The HTML that a notebook shows: the first texts, coloured by their scores."""
        return joined(Html(each._repr_html_()) for each in islice(self, SHOWN))


@overload
def explain(
    model: ModelSource,
    texts: Corpus,
    maps: str | Sequence[str] = DEFAULT_MAPS,
    options: Explaining | Mapping[str, Any] | None = None,
    **keywords: Any,
) -> Explanations: ...


@overload
def explain(
    model: ModelSource,
    texts: Any,
    maps: str | Sequence[str] = DEFAULT_MAPS,
    options: Explaining | Mapping[str, Any] | None = None,
    **keywords: Any,
) -> Any: ...


def explain(
    model: ModelSource,
    texts: Texts,
    maps: str | Sequence[str] = DEFAULT_MAPS,
    options: Explaining | Mapping[str, Any] | None = None,
    **keywords: Any,
) -> Explanation | Explanations:
    """How much each word counts by each map: the Explanation of one text, or the Explanations of several, in their order.

    One text is a string with white space, or an Example; a list of one text has a list of explanations. Keywords are the fields
    of Explaining, and text, label, pair and rationale, the columns.

    >>> explain("runs/pure", "the soup was not good")["attention"]
    >>> [explanation.predicted for explanation in explain("runs/pure", "bistro:test", "rollout", limit=10)]
    """
    refuse_swapped("explain", model, texts)
    maps = names_in(maps, "map")
    refuse_twice("map", maps)
    chosen, columns = with_keywords("explain", keywords, options_from(Explaining, options), Columns())
    requests = [request(name) for name in maps]
    single = isinstance(texts, Example) or (isinstance(texts, str) and is_text(texts))
    corpus = corpus_of(texts, columns)
    loaded = load_model(model, device=chosen.device, dtype=chosen.dtype)
    batcher = loaded.batcher(corpus.unlabelled(), chosen.max_length)
    corpus = corpus.packed(loaded.length, batcher.max_length).first(chosen.limit)
    found = Explanations(corpus, tuple(maps), lambda: _explanations(loaded, corpus, batcher, requests, chosen))
    if not single:
        return found
    (explanation,) = found
    return explanation


def _explanations(
    loaded: LoadedModel, corpus: Corpus, batcher: Batcher, requests: Sequence[Request], options: Explaining
) -> Iterator[Explanation]:
    examples = iter(corpus)
    with Passes(loaded, requests, options.pool) as passes, Progress(corpus.size, options.progress, "explained") as progress:
        while window := list(islice(examples, options.batch_size * WINDOW)):
            by_place: dict[int, Explanation] = {}
            for batch in batcher.batches(window, options.batch_size):
                texts = [window[place - 1] for place in batch.place.tolist()]
                explanations = _of_batch(texts, passes(batch), loaded, requests, options.word_score)
                by_place |= dict(zip(batch.place.tolist(), explanations, strict=True))
                progress.advance(len(texts))
            yield from (replace(by_place[place], marked_by=corpus.marked_by) for place in sorted(by_place))


def _of_batch(
    examples: Sequence[Example], forward: ForwardPass, loaded: LoadedModel, requests: Sequence[Request], word_score: str
) -> Iterator[Explanation]:
    counts = [len(example.words) for example in examples]
    by_map = {chosen.name: word_scores(chosen.scores(forward), forward.batch, counts, word_score) for chosen in requests}
    labels, chances = predicted_labels(forward, loaded.labels), probabilities(forward, loaded.labels)
    seen = seen_words(forward.batch, max(counts))
    for row, (example, count) in enumerate(zip(examples, counts, strict=True)):
        scores, name = {name: rows[row] for name, rows in by_map.items()}, readable(loaded.name)
        yield Explanation(example, labels[row], seen[row, :count], scores, name, probabilities=chances[row])


def write_explanations(explanations: Iterable[Explanation], path: str | Path) -> int:
    """Write explanations as JSON lines and return their number. An existing file is replaced only when all are written."""
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
