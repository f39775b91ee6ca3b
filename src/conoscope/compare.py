"""compare(): several models on one corpus: accuracy and F1 with intervals, and whether two models really differ."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from pathlib import Path

import numpy as np
import pandas as pd
import torch
from jaxtyping import Bool, Float, Int

from conoscope.bounds import POSITIVE, within
from conoscope.corpora import Corpus, Texts, corpus_of
from conoscope.errors import CorpusError, ModelError, OutputError
from conoscope.loading import LoadedModel, load_model
from conoscope.resampling import INTERVAL, weightings, weightings_within
from conoscope.scores import macro_f1, mean_f1
from conoscope.terminal import Progress
from conoscope.textfiles import readable
from conoscope.writing import write_text

RESAMPLES = 2000


@dataclass(frozen=True)
class Comparison:
    """Scores of each model, and the difference of every two: tables, with 95 % intervals from the same resamples.

    `notes`: what should be known of how the models read their texts.
    """

    scores: pd.DataFrame
    pairs: pd.DataFrame
    notes: tuple[str, ...] = ()

    def save(self, path: str | Path) -> None:
        """The scores as CSV, and the pairs in a file of the same name with `-pairs`."""
        target = Path(path)
        try:
            for frame, path in ((self.scores, target), (self.pairs, target.with_stem(f"{target.stem}-pairs"))):
                write_text(path, frame.to_csv(index=False, lineterminator="\n"))
        except OSError as error:
            raise OutputError(f"cannot write {target}: {error.strerror or error}; give -o another file") from error

    def __str__(self) -> str:
        blocks = [self.scores.round(4).to_string(index=False)]
        if len(self.pairs):
            blocks.append(self.pairs.round(4).to_string(index=False))
        return "\n\n".join(blocks)


def compare(
    models: Sequence[str | Path | LoadedModel],
    corpus: Texts,
    device: str | None = None,
    batch_size: int = 64,
    progress: bool = False,
) -> Comparison:
    """Predict the corpus's labels with every model.

    Intervals are bootstrap percentiles over examples: of accuracies and their differences over examples drawn from all, of macro
    F1 over examples drawn within each class. The paired test is McNemar's, exact.
    """
    corpus, batch_size = corpus_of(corpus), within("batch_size", batch_size, POSITIVE)
    if not models:
        raise ModelError("no models to compare; give one or more")
    if not corpus.labels:
        raise CorpusError(f"{corpus} has no labels to compare models by; name the column with --label")
    loaded = [load_model(model, device=device) for model in models]
    found = [predictions(model, corpus, batch_size, progress) for model in loaded]
    true = found[0][1]
    names = [readable(model.name) for model in loaded]
    tables = _tables(names, np.stack([predicted for predicted, _ in found]), true, len(corpus.labels))
    return replace(tables, notes=tuple(note for model in loaded for note in model.notes))


def predictions(
    model: LoadedModel, corpus: Corpus, batch_size: int = 64, progress: bool = False
) -> tuple[Int[np.ndarray, " n"], Int[np.ndarray, " n"]]:
    """What the model says of every labelled example, and what is true, as numbers of the corpus's labels."""
    if not model.labels:
        raise ModelError(f"{model.name} is no classifier; give a model that was trained on labels")
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


def mcnemar(one: Bool[np.ndarray, " n"], other: Bool[np.ndarray, " n"]) -> float:
    """The probability of a split as uneven as this one, were the models equally good where only one of them is right."""
    only_one, only_other = int((one & ~other).sum()), int((other & ~one).sum())
    trials, fewer = only_one + only_other, min(only_one, only_other)
    factorials = np.concatenate(([0.0], np.cumsum(np.log(np.arange(1, trials + 1)))))
    ways = factorials[trials] - factorials[: fewer + 1] - factorials[trials - np.arange(fewer + 1)]
    return min(1.0, float(2 * np.exp(ways - trials * np.log(2)).sum()))


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
    """Macro F1 of every model on the same resamples, drawn within the classes: a class that is there is in every one of them."""
    cells = true * classes + predicted
    found = [
        [mean_f1(np.bincount(cell, times, classes**2).reshape(classes, classes)) for cell in cells]
        for some in weightings_within(true, RESAMPLES)
        for times in some
    ]
    return np.array(found).T
