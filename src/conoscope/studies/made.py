"""Made: one run of a study, a condition with a seed: its model, trained on first use, its texts, and measures of both."""

import shutil
import tempfile
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from functools import cache, cached_property
from pathlib import Path
from typing import Any

import pandas as pd
import torch

from conoscope.capture.loading import LoadedModel, load_model
from conoscope.capture.text_vector import text_vector
from conoscope.common.errors import CorpusError, DataError, ModelError
from conoscope.common.pooling import POOLS
from conoscope.corpora import Corpus, Example, load_corpus, splits_of
from conoscope.corpora.base import digest_of
from conoscope.corpora.entry import VARIABLE, data_folder
from conoscope.explaining import Explaining, Judging, plausibility
from conoscope.measuring.pipeline import Options, measure
from conoscope.results.result import Result
from conoscope.studies.base import NEW_BERT, Condition
from conoscope.studies.checkpoints import new_bert
from conoscope.training.settings import Training
from conoscope.training.trainer import Trained, train

GLOVE = ("glove.6B.100d*.txt*", "glove.6B.zip")


@dataclass(frozen=True)
class Place:
    """Where runs take place: the data, the device, the maximum number of texts per split, and the folder for models, if kept."""

    data_dir: str | None = None
    device: str = "auto"
    limit: int | None = None
    models: str | None = None


class Made:
    """One condition with one seed: its texts, its model and their measures, each computed on first use."""

    def __init__(self, condition: Condition, seed: int, place: Place) -> None:
        self.condition, self.seed, self.place = condition, seed, place
        self._temporary: tempfile.TemporaryDirectory[str] | None = None

    def close(self) -> None:
        """Remove the model, unless it is kept."""
        if self._temporary is not None:
            self._temporary.cleanup()

    @cached_property
    def texts(self) -> Corpus:
        """The texts that the model is measured on."""
        condition, data_dir, limit = self.condition, self.place.data_dir, self.place.limit
        if condition.balanced is not None:
            chosen = held_balanced(condition.test, data_dir, least(condition.balanced, limit) or 0)
        else:
            chosen = held(condition.test, data_dir, None if limit is None else limit * condition.parts)
            if chosen.pack is not None and condition.training is None:
                chosen = chosen.packed(self.model.length, self.model.max_length)
                chosen = holding(chosen, chosen)
        return chosen.shard(self.seed % condition.parts + 1, condition.parts).first(limit)

    @cached_property
    def trained(self) -> Trained:
        """The training, with its scores; those of `test` are on `texts`."""
        settings, place = self.condition.training, self.place
        if settings is None:
            raise ModelError(f"{self.condition.model} is taken as it is, and has no training")
        vectors = glove(place.data_dir) if settings.vectors == "glove" else settings.vectors
        chosen = replace(settings, seed=self.seed, device=place.device, vectors=vectors)
        learned = held_splits(self.condition.corpus, place.data_dir, place.limit)
        if chosen.checkpoint != NEW_BERT:
            return train({**learned, "test": self.texts}, self._folder(chosen), chosen)
        with tempfile.TemporaryDirectory() as folder:
            new_bert(learned["train"], chosen, folder)
            begun = replace(chosen, checkpoint=folder, layers=None, width=None, heads=None)
            return train({**learned, "test": self.texts}, self._folder(chosen), begun)

    @cached_property
    def model(self) -> LoadedModel:
        """The model, trained or used unchanged."""
        return load_model(self.trained.folder if self.condition.model is None else self.condition.model, device=self.place.device)

    @property
    def device(self) -> str:
        """The name of the device that the run uses."""
        device = self.place.device
        gpu = device.startswith("cuda") or (device == "auto" and torch.cuda.is_available())
        return torch.cuda.get_device_name() if gpu else "cpu"

    def accuracy(self) -> float:
        """The accuracy of the trained model on `texts`."""
        return float(self.trained.scores["test"]["accuracy"])

    def measure(self, *measures: str, **options: Any) -> Result:
        """The result of measuring the model on its texts."""
        return measure(self.model, self.texts, measures, Options(device=self.place.device, **options))

    def measure_before(self, *measures: str) -> Result | None:
        """The result of measuring the checkpoint before fine-tuning, on the same texts, with the same maximum length and the same
        vector of a text; None for a new model."""
        training = self.condition.training
        if training is None or training.checkpoint is None:
            return None
        vector = text_vector(self.model).vector
        pool = vector if vector in POOLS else None
        options = Options(device=self.place.device, max_length=self.model.max_length, pool=pool)
        return measure(training.checkpoint, self.texts, measures, options)

    def plausibility(self, *maps: str) -> pd.DataFrame:
        """The table of how well maps agree with rationales; without rows if no text has a marked word."""
        if not any(any(example.rationale or ()) for example in self.texts):
            return pd.DataFrame(columns=["map", "metric", "average", "value"])
        options = Explaining(device=self.place.device, batch_size=64)
        return plausibility(self.model, self.texts, maps, options=options, judging=Judging(resamples=0))["plausibility"]

    def _folder(self, settings: Training) -> Path:
        if self.place.models is None:
            self._temporary = tempfile.TemporaryDirectory()
            return Path(self._temporary.name) / "model"
        name = "-".join(str(value) for value in self.condition.keys.values()).replace("/", "-")
        folder = Path(self.place.models) / f"{name}-seed-{settings.seed}"
        shutil.rmtree(folder, ignore_errors=True)
        return folder


def by_layer(frame: pd.DataFrame, site: str) -> dict[int, float]:
    """A measure's value by layer, for whole vectors at a site."""
    whole = frame[(frame["site"] == site) & frame["head"].isna()].dropna(subset="value")
    return {int(layer): float(value) for layer, value in zip(whole["layer"], whole["value"], strict=True)}


def least(*limits: int | None) -> int | None:
    """The smallest of the limits that are not None; None if all are."""
    return min((limit for limit in limits if limit is not None), default=None)


def balanced(corpus: Corpus, count: int) -> Corpus:
    """The first n // C examples of each class, in the corpus's order; reading stops as soon as they are found."""
    each, taken, kept = count // len(corpus.labels), Counter[str](), list[Example]()
    for example in corpus:
        if len(kept) == each * len(corpus.labels):
            break
        if example.label is not None and taken[example.label] < each:
            taken[example.label] += 1
            kept.append(example)
    return holding(corpus, kept)


def holding(corpus: Corpus, examples: Iterable[Example]) -> Corpus:
    """The same corpus with these examples, in memory."""
    kept = tuple(examples)
    return replace(corpus, read=lambda _: iter(kept), size=len(kept), fingerprint=digest_of(kept), pack=None)


@cache
def held(spec: str, data_dir: str | None, limit: int | None = None) -> Corpus:
    """A corpus, or its first `limit` examples, cached for all runs of a process."""
    corpus = load_corpus(spec, data_dir=data_dir).first(limit)
    return corpus if corpus.pack is not None else holding(corpus, corpus)


@cache
def held_balanced(spec: str, data_dir: str | None, count: int) -> Corpus:
    """The first texts of each class, cached for all runs of a process."""
    return balanced(load_corpus(spec, data_dir=data_dir), count)


@cache
def held_splits(spec: str, data_dir: str | None, limit: int | None = None) -> dict[str, Corpus]:
    """The train and validation splits, cached for all runs of a process."""
    splits = splits_of(spec, data_dir=data_dir)
    return {name: holding(splits[name], splits[name].first(limit)) for name in ("train", "validation")}


def glove(data_dir: str | None) -> str:
    """The source of GloVe 6B 100d: the downloaded zip, or a text file."""
    folder = data_folder(data_dir) / "glove"
    found = next((path for pattern in GLOVE for path in sorted(folder.glob(pattern))), None)
    if found is None:
        raise DataError(
            f"no word vectors: looked for {' and '.join(GLOVE)} in {folder}; "
            f"conoscope fetch glove, or set {VARIABLE} or --data-dir to a folder that has it"
        )
    return f"{found}:glove.6B.100d.txt" if found.suffix == ".zip" else str(found)


def require_data(condition: Condition, data_dir: str | None) -> None:
    """Raise an error if the corpus or vectors of a condition are missing, before anything runs."""
    load_corpus(condition.test, data_dir=data_dir)
    if condition.training is not None:
        splits_of(condition.corpus, data_dir=data_dir)
        if condition.training.vectors == "glove":
            glove(data_dir)


def on_bistro_where_absent(conditions: Iterable[Condition], data_dir: str | None) -> Iterator[Condition]:
    """The conditions, on the built-in corpus if theirs is missing."""
    for condition in conditions:
        try:
            require_data(condition, data_dir)
            yield condition
        except CorpusError:
            yield replace(condition, corpus="bistro", texts=None)
