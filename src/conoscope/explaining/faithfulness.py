"""faithfulness(): whether the model needs the words that a map puts first, and whether they are enough (DeYoung et al. 2020)."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from jaxtyping import Float

from conoscope.capture.loading import ModelSource, load_model
from conoscope.capture.order import refuse_swapped
from conoscope.common.claiming import claims
from conoscope.common.errors import CorpusError, ModelError
from conoscope.common.keywords import options_from, with_keywords
from conoscope.corpora import Columns, Corpus, Texts, corpus_of
from conoscope.explaining.erasing import BINS, METRICS, Eraser, Erasing
from conoscope.explaining.evaluation import Evaluation, provenance_of, rows_of
from conoscope.explaining.intervals import estimated, mean_of
from conoscope.explaining.records import Explaining
from conoscope.explaining.sources import Sources
from conoscope.results.store import claim

WINDOW = 64
"""How many examples are erased and predicted together."""
Falls = Float[np.ndarray, "n m 2 bins"]


@claims()
def faithfulness(
    model: ModelSource,
    corpus: Texts,
    maps: str | Sequence[str] | None = None,
    scores: Sequence[str | Path] = (),
    options: Explaining | Mapping[str, Any] | None = None,
    erasing: Erasing | Mapping[str, Any] | None = None,
    out: str | Path | None = None,
    **keywords: Any,
) -> Evaluation:
    """How far the predicted class's probability falls without a map's top words (comprehensiveness), and with those alone
    (sufficiency). Keywords are the fields of Explaining and Erasing, and text, label, pair and rationale, the columns."""
    given = options_from(Explaining, options), options_from(Erasing, erasing), Columns()
    explaining, erased, columns = with_keywords("faithfulness", keywords, *given)
    refuse_swapped("faithfulness", model, corpus)
    texts = corpus_of(corpus, columns)
    loaded = load_model(model, device=explaining.device, dtype=explaining.dtype)
    if len(loaded.labels) < 2:
        raise ModelError(f"{loaded.name} is no classifier, and faithfulness is of one; give a model that was trained on labels")
    sources = Sources.of(loaded, maps, scores)
    provenance = provenance_of(
        "faithfulness",
        loaded,
        texts,
        sources.names,
        {**asdict(erased), **sources.described(explaining)},
        sources.pool(explaining),
    )
    if out is not None:
        claim(out, provenance)
    falls, names = _falls(texts.first(explaining.limit), sources, explaining, erased), sources.names
    tables = {"faithfulness": _table(falls, names, erased), "faithfulness.bins": _by_share(falls, names, erased)}
    evaluation = Evaluation(tables, {**provenance, "seen": {"examples": len(falls)}})
    if out is not None:
        evaluation.save(out)
    return evaluation


def _falls(corpus: Corpus, sources: Sources, options: Explaining, erasing: Erasing) -> Falls:
    """The fall of the predicted probability, by example, map, metric and share of words."""
    loaded = sources.model
    assert loaded is not None
    batcher = loaded.batcher(corpus.unlabelled(), options.max_length)
    eraser = Eraser(loaded, batcher, options.batch_size, erasing.token(loaded))
    explanations = sources.explanations(corpus, replace(options, limit=None))
    windows = []
    while window := list(islice(explanations, WINDOW)):
        windows.append(eraser.falls(window, sources.names))
    if not windows:
        raise CorpusError(f"{corpus} has no examples to explain; give another corpus")
    falls: Falls = np.concatenate(windows)
    for which, name in enumerate(sources.names):
        if np.isnan(falls[:, which]).all():
            raise sources.missing(name, corpus)
    return falls


def _table(falls: Falls, names: Sequence[str], erasing: Erasing) -> pd.DataFrame:
    """AOPC of each map: the mean over the shares of words."""
    rows = []
    for which, name in enumerate(names):
        values = {(metric, "macro"): falls[:, which, number].mean(-1) for number, metric in enumerate(METRICS)}
        rows += rows_of(name, *_estimated(values, erasing.resamples))
    return pd.DataFrame(rows)


def _by_share(falls: Falls, names: Sequence[str], erasing: Erasing) -> pd.DataFrame:
    rows = []
    for which, name in enumerate(names):
        for place, share in enumerate(BINS):
            values = {(metric, "macro"): falls[:, which, number, place] for number, metric in enumerate(METRICS)}
            rows += [{"share": share, **row} for row in rows_of(name, *_estimated(values, erasing.resamples))]
    frame = pd.DataFrame(rows)
    return frame[["map", "metric", "average", "share", *frame.columns[4:]]]


Key = tuple[str, str]


def _estimated(
    values: dict[Key, Float[np.ndarray, " n"]], resamples: int
) -> tuple[dict[Key, dict[str, float]], dict[Key, tuple[int, int]]]:
    """Means over examples with their intervals, and the numbers of examples with and without a value."""
    sentences = len(next(iter(values.values())))

    def means(weights: Float[np.ndarray, "r n"]) -> dict[Key, Float[np.ndarray, " r"]]:
        return {key: mean_of(weights, each) for key, each in values.items()}

    undefined = {key: int(np.isnan(each).sum()) for key, each in values.items()}
    counts = {key: (sentences - missing, missing) for key, missing in undefined.items()}
    return estimated(means, sentences, resamples, sentences), counts
