"""plausibility(): how well maps agree with what people marked, over all words together and sentence by sentence."""

from collections.abc import Iterator, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from transformers import PreTrainedModel

from conoscope.capture.loading import LoadedModel, load_model
from conoscope.common.errors import CorpusError
from conoscope.corpora import Corpus, Example, Notes, Texts, corpus_of
from conoscope.explaining.evaluation import Evaluation, provenance_of, rows_of
from conoscope.explaining.intervals import estimated
from conoscope.explaining.metrics import Agreement, Judging, Sentence
from conoscope.explaining.records import Explaining
from conoscope.explaining.sources import Sources
from conoscope.results.store import claim


def plausibility(
    corpus: Texts,
    model: str | Path | PreTrainedModel | LoadedModel | None = None,
    maps: Sequence[str] | None = None,
    scores: Sequence[str | Path] = (),
    options: Explaining | None = None,
    judging: Judging | None = None,
    out: str | Path | None = None,
) -> Evaluation:
    """Compare maps of a model, and scores from files, with a corpus's rationales; `random` is there to compare with."""
    how, judge, texts = options or Explaining(), judging or Judging(), corpus_of(corpus)
    loaded = None if model is None else load_model(model, device=how.device, dtype=how.dtype)
    if loaded is None:
        how.refuse_without_model()
    sources = Sources.of(loaded, maps, scores)
    asked_for = {**asdict(judge), **sources.described(how)}
    provenance = provenance_of("plausibility", loaded, texts, sources.names, asked_for, sources.pool(how))
    if out is not None:
        claim(out, provenance)
    judged = _judged(_those_judged(texts.first(how.limit), judge.sentences), sources, how, judge)
    found = Evaluation(judged[0], {**provenance, "seen": judged[1]})
    if out is not None:
        found.save(out)
    return found


def _those_judged(corpus: Corpus, which: str) -> Corpus:
    """Only the sentences that are judged: with something marked, of a label but the first, or all."""
    if which == "label" and not corpus.labels:
        raise CorpusError(f"{corpus} has no labels to choose sentences by; give --sentences rationale")
    first = corpus.labels[0] if corpus.labels else None

    def read(notes: Notes) -> Iterator[Example]:
        for example in corpus.read(notes):
            if which == "all" or (any(example.rationale or ()) if which == "rationale" else example.label not in (None, first)):
                yield example

    return replace(corpus, read=read, size=None)


def _judged(
    corpus: Corpus, sources: Sources, options: Explaining, judge: Judging
) -> tuple[dict[str, pd.DataFrame], dict[str, Any]]:
    gathered: dict[str, list[Sentence]] = {name: [] for name in sources.names}
    examples, marked, unscored = 0, 0, dict.fromkeys(sources.names, 0)
    for explanation in sources.explanations(corpus, replace(options, limit=None)):
        example = explanation.example
        marks = np.array(example.rationale or (False,) * len(example.words), dtype=bool)
        examples, marked = examples + 1, marked + int(marks.sum())
        for name in sources.names:
            scores = explanation.maps.get(name, np.full(len(marks), np.nan))
            there = ~np.isnan(scores)
            unscored[name] += int((~there).sum())
            if there.any():
                gathered[name].append((scores[there], marks[there]))
    if not marked:
        raise CorpusError(f"{corpus} has no rationales to compare maps with; give a corpus that has, or name --rationale COLUMN")
    rows, curves = [], []
    for name, sentences in gathered.items():
        if not sentences:
            raise sources.missing(name, corpus)
        agreement = Agreement(sentences, judge)
        found = estimated(agreement.values, len(sentences), judge.resamples, int(agreement.lengths.sum()))
        rows += rows_of(name, found, agreement.counts())
        curves.append(pd.DataFrame({"map": name, **agreement.curve()}))
    tables = {"plausibility": pd.DataFrame(rows), "plausibility.curve": pd.concat(curves, ignore_index=True)}
    return tables, {"examples": examples, "marked": marked, "words_without_score": unscored}
