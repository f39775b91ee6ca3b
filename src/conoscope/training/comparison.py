"""compare(): several models on one corpus: accuracy and F1 with intervals, and paired tests of their differences."""

import warnings
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import torch
from jaxtyping import Bool, Float, Int

from conoscope.capture.loading import LoadedModel, ModelSource, is_model, load_model
from conoscope.common.bounds import POSITIVE, check
from conoscope.common.errors import CorpusError, ModelError, OutputError
from conoscope.common.keywords import refuse_unknown_fields, with_keywords
from conoscope.common.resampling import INTERVAL, weightings, weightings_within
from conoscope.common.terminal import Progress
from conoscope.common.textfiles import readable
from conoscope.common.writing import write_text
from conoscope.corpora import Columns, Corpus, Texts, corpus_of
from conoscope.training.scores import macro_f1, mean_f1

RESAMPLES = 2000
DIFFERENCE = "accuracy of model minus accuracy of other"
"""Which way the differences of a comparison are taken."""


@dataclass(frozen=True)
class Comparison:
    """Tables of each model's scores and of the difference between every two (`model` minus `other`), with 95 % intervals from the
    same resamples.

    `notes`: remarks on how the models read their texts.
    """

    scores: pd.DataFrame
    pairs: pd.DataFrame
    notes: tuple[str, ...] = ()

    def save(self, path: str | Path) -> None:
        """Write the scores as CSV, and the pairs to a file of the same name with `-pairs`."""
        target = Path(path)
        try:
            for frame, path in ((self.scores, target), (self.pairs, target.with_stem(f"{target.stem}-pairs"))):
                write_text(path, frame.to_csv(index=False, lineterminator="\n"))
        except OSError as error:
            raise OutputError(f"cannot write {target}: {error.strerror or error}; give -o another file") from error

    def __repr__(self) -> str:
        return str(self)

    def __str__(self) -> str:
        blocks = [self.scores.round(4).to_string(index=False)]
        if len(self.pairs):
            blocks.append(f"difference: {DIFFERENCE}\n{self.pairs.round(4).to_string(index=False)}")
        return "\n\n".join(blocks)


@refuse_unknown_fields
@dataclass(frozen=True)
class Comparing:
    """Options of `compare()`: the device, how many texts a batch has, how many texts are read, whether progress is shown."""

    device: str | None = None
    batch_size: int = 64
    limit: int | None = None
    progress: bool = False

    def __post_init__(self) -> None:
        check(self, batch_size=POSITIVE, limit=POSITIVE)


def compare(models: ModelSource | Sequence[ModelSource], *others: ModelSource | Texts, **keywords: Any) -> Comparison:
    """Compare models by their predictions of a corpus's labels: models first, or a list of models, and the corpus last.

    Keywords are the fields of Comparing, and text, label, pair and rationale, the columns. Intervals are bootstrap percentiles:
    examples are resampled from all for accuracies and their differences, and within each class for macro F1. The paired test is
    McNemar's, exact.

    >>> compare("runs/pure", "runs/tuned", "bistro:test", limit=100)
    """
    last = (keywords.pop("corpus"),) if "corpus" in keywords else ()
    models, corpus, more = _in_order(models, (*others, *last))
    options, columns = with_keywords("compare", {**more, **keywords}, Comparing(), Columns())
    corpus, device = corpus_of(corpus, columns).first(options.limit), options.device
    batch_size, progress = options.batch_size, options.progress
    if not models:
        raise ModelError("no models to compare; give one or more")
    if not corpus.labels:
        raise CorpusError(f"{corpus} has no labels to compare models by; name the column with --label")
    loaded = [load_model(model, device=device) for model in models]
    for model in loaded:
        _refuse_without_classes(model)
    by_model = [predictions(model, corpus, batch_size, progress) for model in loaded]
    true = by_model[0][1]
    names = [readable(model.name) for model in loaded]
    tables = _tables(names, np.stack([predicted for predicted, _ in by_model]), true, len(corpus.labels))
    return replace(tables, notes=tuple(note for model in loaded for note in model.notes))


def _in_order(models: Any, others: tuple[Any, ...]) -> tuple[list[Any], Any, dict[str, Any]]:
    """The models, the corpus, and the options that were given by place, as earlier versions took them after a list of models."""
    if not isinstance(models, list | tuple) or is_model(models):
        listed = [models, *others[:-1]]
        corpus, *by_place = others[-1:] or (None,)
    else:
        listed = [*models]
        corpus, *by_place = others or (None,)
    if corpus is None:
        raise CorpusError("compare is on texts, and none are given; give compare(one, other, corpus)")
    if by_place:
        warnings.warn("device and batch_size are keywords now, as in compare(models, corpus, device='cpu')", FutureWarning, 3)
    return listed, corpus, dict(zip(("device", "batch_size", "progress"), by_place, strict=False))


def predictions(
    model: LoadedModel, corpus: Corpus, batch_size: int = 64, progress: bool = False
) -> tuple[Int[np.ndarray, " n"], Int[np.ndarray, " n"]]:
    """The predicted and the true label of every labelled example, as indices of the corpus's labels."""
    _refuse_without_classes(model)
    numbers = {number: corpus.labels.index(label) for label, number in model.label_numbers(corpus).items()}
    examples = [example for example in corpus if example.label is not None]
    if not examples:
        raise CorpusError(f"{corpus} has no labelled example to compare models by; give another")
    predicted, true = (np.zeros(len(examples), dtype=np.int64) for _ in range(2))
    with Progress(len(examples), progress, "predicted") as bar:
        for batch in model.batcher(corpus).batches(examples, batch_size):
            logits = model.answer(batch)
            places = batch.place.numpy() - 1
            known = torch.tensor(sorted(numbers), device=logits.device)
            predicted[places] = [numbers[number] for number in known[logits[:, known].argmax(-1)].tolist()]
            true[places] = [numbers[number] for number in batch.label.tolist()]
            bar.advance(len(places))
    return predicted, true


def _refuse_without_classes(model: LoadedModel) -> None:
    """Raise ModelError for a model without classes, with what to type to see what fine-tuning changed."""
    if not model.labels:
        raise ModelError(
            f"{model.name} is no classifier; give a model that was trained on labels; or, before and after fine-tuning, measure "
            "each (conoscope measure MODEL CORPUS -o before/, and after/) and type conoscope compare before/ after/"
        )


def mcnemar(one: Bool[np.ndarray, " n"], other: Bool[np.ndarray, " n"]) -> float:
    """The p-value of McNemar's exact test: the probability of a split at least as uneven, among the examples that only one of two
    equally good models gets right."""
    from scipy.stats import binomtest

    only_one, differ = int((one & ~other).sum()), int((one ^ other).sum())
    return float(binomtest(only_one, differ).pvalue) if differ else 1.0


def _tables(names: Sequence[str], predicted: Int[np.ndarray, "m n"], true: Int[np.ndarray, " n"], classes: int) -> Comparison:
    accuracies, f1s = _accuracies(predicted == true), _macro_f1s(predicted, true, classes)
    right = predicted == true
    scores = [
        {
            "model": name,
            "accuracy": right[m].mean(),
            **_interval("accuracy", accuracies[m]),
            "macro_f1": macro_f1(predicted[m], true, classes),
            **_interval("macro_f1", f1s[m]),
            "n": len(true),
        }
        for m, name in enumerate(names)
    ]
    pairs = [
        {
            "model": names[a],
            "other": names[b],
            "difference": right[a].mean() - right[b].mean(),
            **_interval("difference", accuracies[a] - accuracies[b]),
            "only_model_right": int((right[a] & ~right[b]).sum()),
            "only_other_right": int((right[b] & ~right[a]).sum()),
            "p": mcnemar(right[a], right[b]),
        }
        for a, b in combinations(range(len(names)), 2)
    ]
    return Comparison(pd.DataFrame(scores), pd.DataFrame(pairs))


def _interval(name: str, values: Float[np.ndarray, " r"]) -> dict[str, float]:
    low, high = np.quantile(values, INTERVAL)
    return {f"{name}_low": float(low), f"{name}_high": float(high)}


def _accuracies(right: Bool[np.ndarray, "m n"]) -> Float[np.ndarray, "m r"]:
    """The accuracy of every model on the same resamples of the examples."""
    count = right.shape[1]
    return np.concatenate([right @ times.T / count for times in weightings(count, RESAMPLES, count)], axis=1)


def _macro_f1s(predicted: Int[np.ndarray, "m n"], true: Int[np.ndarray, " n"], classes: int) -> Float[np.ndarray, "m r"]:
    """Macro F1 of every model on the same resamples, drawn within classes, so that no class is missing from a resample."""
    cells = true * classes + predicted
    by_resample = [
        [mean_f1(np.bincount(cell, times, classes**2).reshape(classes, classes)) for cell in cells]
        for some in weightings_within(true, RESAMPLES)
        for times in some
    ]
    return np.array(by_resample).T
