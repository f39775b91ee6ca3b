"""plausibility(): how well maps agree with human rationales, over all words together and sentence by sentence."""

import os
import warnings
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from conoscope.capture.loading import ModelSource, is_model, load_model
from conoscope.common.claiming import claims
from conoscope.common.errors import CorpusError
from conoscope.common.keywords import options_from, with_keywords
from conoscope.corpora import Columns, Corpus, Example, Notes, Texts, corpus_of, names_texts
from conoscope.explaining.evaluation import Evaluation, provenance_of, rows_of
from conoscope.explaining.intervals import estimated
from conoscope.explaining.metrics import Judging, PlausibilityMetrics, Sentence
from conoscope.explaining.records import Explaining
from conoscope.explaining.sources import Sources
from conoscope.results.store import claim


@claims()
def plausibility(
    model: ModelSource | Texts | None = None,
    corpus: ModelSource | Texts | None = None,
    maps: str | Sequence[str] | None = None,
    scores: Sequence[str | Path] = (),
    options: Explaining | Mapping[str, Any] | None = None,
    judging: Judging | Mapping[str, Any] | None = None,
    out: str | Path | None = None,
    **keywords: Any,
) -> Evaluation:
    """Evaluate maps of a model, and scores from files, against a corpus's rationales; `random` is the baseline.

    The corpus alone is given if all scores come from files. Keywords are the fields of Explaining and Judging, and text, label,
    pair and rationale, the columns.

    >>> plausibility("runs/pure", "hatexplain:test", "attention", limit=100)
    >>> plausibility("hatexplain:test", scores=["scores.jsonl"])
    """
    source, first = _in_order(model, corpus)
    given = options_from(Explaining, options), options_from(Judging, judging), Columns()
    explaining, judged, columns = with_keywords("plausibility", keywords, *given)
    texts = corpus_of(first, columns)
    loaded = None if source is None else load_model(source, device=explaining.device, dtype=explaining.dtype)
    if loaded is None:
        explaining.refuse_without_model()
    sources = Sources.of(loaded, maps, scores)
    settings = {**asdict(judged), **sources.described(explaining)}
    provenance = provenance_of("plausibility", loaded, texts, sources.names, settings, sources.pool(explaining))
    if out is not None:
        claim(out, provenance)
    tables, seen = _evaluate(_evaluated(texts.first(explaining.limit), judged.sentences), sources, explaining, judged)
    evaluation = Evaluation(tables, {**provenance, "seen": seen})
    if out is not None:
        evaluation.save(out)
    return evaluation


def _in_order(model: Any, corpus: Any) -> tuple[Any, Any]:
    """The model, or None, and the corpus; texts may come first: alone, or for one more version before the model."""
    texts_first = names_texts(os.fspath(model)) if isinstance(model, str | os.PathLike) else not is_model(model)
    if model is None or not texts_first:
        if corpus is None:
            raise CorpusError("plausibility is of texts, and none are given; give plausibility(model, corpus)")
        return model, corpus
    if corpus is not None:
        advice = "plausibility(corpus, model) is now plausibility(model, corpus); the old order works until the next version"
        warnings.warn(advice, FutureWarning, stacklevel=3)
    return corpus, model


def _evaluated(corpus: Corpus, which: str) -> Corpus:
    """The corpus reduced to the evaluated sentences: those with a marked word, those with any label but the first, or all."""
    if which == "label" and not corpus.labels:
        raise CorpusError(f"{corpus} has no labels to choose sentences by; give --sentences rationale")
    first = corpus.labels[0] if corpus.labels else None

    def read(notes: Notes) -> Iterator[Example]:
        for example in corpus.read(notes):
            if which == "all" or (any(example.rationale or ()) if which == "rationale" else example.label not in (None, first)):
                yield example

    return replace(corpus, read=read, size=None)


def _evaluate(
    corpus: Corpus, sources: Sources, options: Explaining, judging: Judging
) -> tuple[dict[str, pd.DataFrame], dict[str, Any]]:
    """The tables, and the counts of examples, marked words and words without a score."""
    by_map: dict[str, list[Sentence]] = {name: [] for name in sources.names}
    examples, marked, unscored = 0, 0, dict.fromkeys(sources.names, 0)
    for explanation in sources.explanations(corpus, replace(options, limit=None)):
        example = explanation.example
        marks = np.array(example.rationale or (False,) * len(example.words), dtype=bool)
        examples, marked = examples + 1, marked + int(marks.sum())
        for name in sources.names:
            scores = explanation.maps.get(name, np.full(len(marks), np.nan))
            scored = ~np.isnan(scores)
            unscored[name] += int((~scored).sum())
            if scored.any():
                by_map[name].append((scores[scored], marks[scored]))
    if not marked:
        raise CorpusError(f"{corpus} has no rationales to compare maps with; give a corpus that has, or name --rationale COLUMN")
    rows, curves = [], []
    for name, sentences in by_map.items():
        if not sentences:
            raise sources.missing(name, corpus)
        metrics = PlausibilityMetrics(sentences, judging)
        estimates = estimated(metrics.values, len(sentences), judging.resamples, int(metrics.lengths.sum()))
        rows += rows_of(name, estimates, metrics.counts())
        curves.append(pd.DataFrame({"map": name, **metrics.curve()}))
    tables = {"plausibility": pd.DataFrame(rows), "plausibility.curve": pd.concat(curves, ignore_index=True)}
    return tables, {"examples": examples, "marked": marked, "words_without_score": unscored}
