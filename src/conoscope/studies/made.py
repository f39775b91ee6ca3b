"""Made: one run of a study, a condition with a seed: its model, trained on first use, its texts, and measures of both."""

import shutil
import tempfile
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass, replace
from functools import cache, cached_property
from pathlib import Path
from typing import Any

import pandas as pd
import torch

from conoscope.capture.loading import LoadedModel, load_model
from conoscope.capture.text_vector import text_vector
from conoscope.causes.steer import steer
from conoscope.common.errors import CorpusError, ModelError
from conoscope.common.pooling import POOLS
from conoscope.corpora import Corpus, Example, load_corpus, splits_of
from conoscope.corpora.base import digest_of
from conoscope.explaining import Explaining, Judging, plausibility
from conoscope.measuring.pipeline import Options, measure
from conoscope.results.result import Result
from conoscope.studies.added_words import with_added_words
from conoscope.studies.base import NEW_BERT, Condition, Keys
from conoscope.studies.checkpoints import new_bert, without_folders
from conoscope.studies.rows import without
from conoscope.studies.vectors import digest_of_file, source_of
from conoscope.training.building import untrained
from conoscope.training.geometry_callback import GeometryCallback
from conoscope.training.memo import Memo
from conoscope.training.settings import Training
from conoscope.training.trainer import Trained, train

MEMO = Memo()
"""What the runs of a process share: tokenizers, word vectors and encoded texts."""
OF_RUNS = ("seed", "device", "resume", "progress", "report_to")
"""Settings that are no part of a configuration."""
TRACED = 256
"""Number of texts that a trace is measured on."""


@dataclass(frozen=True)
class Place:
    """Where runs take place: the data, the device, the maximum number of texts per split, and the folder for models, if kept."""

    data_dir: str | None = None
    device: str = "auto"
    limit: int | None = None
    models: str | None = None


class Measured:
    """A model and its texts, and measures of both."""

    place: Place
    texts: Corpus
    model: LoadedModel

    def measure(self, *measures: str, **options: Any) -> Result:
        """The result of measuring the model on its texts."""
        return measure(self.model, self.texts, measures, Options(device=self.place.device, **options))

    def plausibility(self, *maps: str, normalize: str = "minmax") -> pd.DataFrame:
        """The table of how well maps agree with rationales; without rows if no text has a marked word."""
        if not any(any(example.rationale or ()) for example in self.texts):
            return pd.DataFrame(columns=["map", "metric", "average", "value"])
        options = Explaining(device=self.place.device, batch_size=64)
        judging = Judging(resamples=0, normalize=normalize)
        return plausibility(self.model, self.texts, maps, options=options, judging=judging)["plausibility"]


class Untrained(Measured):
    """A run's model as it is before training, on the same texts."""

    def __init__(self, place: Place, texts: Corpus, model: LoadedModel) -> None:
        self.place, self.texts, self.model = place, texts, model


class Made(Measured):
    """One condition with one seed: its texts, its model and their measures, each computed on first use."""

    def __init__(self, condition: Condition, seed: int, place: Place) -> None:
        self.condition, self.seed, self.place = condition, seed, place
        self._trace: list[dict[str, float]] = []
        self._temporary: list[tempfile.TemporaryDirectory[str]] = []

    def close(self) -> None:
        """Remove the model, unless it is kept."""
        for folder in self._temporary:
            folder.cleanup()

    @cached_property
    def texts(self) -> Corpus:  # type: ignore[override]
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
    def settings(self) -> Training:
        """The settings of the training: with seed, device, word vectors and, for a BERT that is made here, its folder."""
        settings, place = self.condition.training, self.place
        if settings is None:
            raise ModelError(f"{self.condition.model} is taken as it is, and has no training")
        vectors = None if settings.vectors is None else source_of(str(settings.vectors), place.data_dir)
        chosen = replace(settings, seed=self.seed, device=place.device, vectors=vectors)
        if chosen.checkpoint != NEW_BERT and not self.condition.added_words:
            return chosen
        folder = str(self._new_folder())
        if self.condition.added_words:
            with_added_words(str(chosen.checkpoint), self._learned["train"], folder, chosen.seed)
        else:
            new_bert(self._learned["train"], chosen, folder)
        return replace(chosen, checkpoint=folder, layers=None, width=None, heads=None)

    @cached_property
    def trained(self) -> Trained:
        """The training, with its scores; those of `test` are on `texts`."""
        settings = self.settings
        traces = [GeometryCallback(None, self.texts, every="epoch", size=TRACED)] if self.condition.trace else []
        splits = {**self._learned, "test": self.texts}
        trained = train(splits, self._folder(settings), settings, callbacks=traces, memo=MEMO)
        self._trace += [row for trace in traces for row in trace.rows]
        return trained

    @property
    def trace(self) -> list[dict[str, float]]:
        """The geometry before training and at the end of each epoch, a dictionary each; empty if the condition has no trace."""
        return self._trace if self.trained else []

    @cached_property
    def model(self) -> LoadedModel:  # type: ignore[override]
        """The model, trained or used unchanged."""
        return load_model(self.trained.folder if self.condition.model is None else self.condition.model, device=self.place.device)

    def steered(self) -> pd.DataFrame:
        """The table of what becomes of the answers when what is classified from is turned towards another class, whose direction
        the training texts give."""
        return steer(self.model, self.texts, directions=self._learned["train"], resamples=0)["steering"]

    def untrained(self) -> Untrained:
        """The model before training, with the very weights that training begins with, on the same texts."""
        return Untrained(self.place, self.texts, untrained(self._learned["train"], self.settings, MEMO))

    @property
    def device(self) -> str:
        """The name of the device that the run uses."""
        device = self.place.device
        gpu = device.startswith("cuda") or (device == "auto" and torch.cuda.is_available())
        return torch.cuda.get_device_name() if gpu else "cpu"

    def accuracy(self) -> float:
        """The accuracy of the trained model on `texts`."""
        return float(self.trained.scores["test"]["accuracy"])

    def majority(self) -> float:
        """The share of the largest class in `texts`."""
        labels = Counter(example.label for example in self.texts)
        return max(labels.values()) / labels.total()

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

    @property
    def facts(self) -> dict[str, Any]:
        """What a run is kept with: scores for the gate, if a model was trained, the configuration, digests of what it read."""
        scores = {"accuracy": self.accuracy(), "majority": self.majority()} if "trained" in vars(self) else {}
        return {**scores, "setting": setting_of(self.condition, self.place.limit), "source": self._digests()}

    def _digests(self) -> Keys:
        """Digests of the texts by split, and of word vectors and checkpoint."""
        texts = {"test": self.texts.fingerprint}
        training = self.condition.training
        if training is None or "trained" not in vars(self):
            model = {} if self.condition.model is None else {"model": digest_of_file(self.condition.model)}
            return {**texts, **model}
        texts |= {name: corpus.fingerprint for name, corpus in self._learned.items()}
        checkpoint = None if training.checkpoint == NEW_BERT else training.checkpoint
        files = {"vectors": self.settings.vectors, "checkpoint": checkpoint}
        return {**texts, **{name: digest_of_file(str(file)) for name, file in files.items() if file is not None}}

    @property
    def _learned(self) -> dict[str, Corpus]:
        return held_splits(self.condition.corpus, self.place.data_dir, self.place.limit)

    def _new_folder(self) -> Path:
        self._temporary.append(tempfile.TemporaryDirectory())
        return Path(self._temporary[-1].name)

    def _folder(self, settings: Training) -> Path:
        if self.place.models is None:
            return self._new_folder() / "model"
        name = "-".join(str(value) for value in self.condition.keys.values()).replace("/", "-")
        folder = Path(self.place.models) / f"{name}-seed-{settings.seed}"
        shutil.rmtree(folder, ignore_errors=True)
        return folder


def setting_of(condition: Condition, limit: int | None) -> dict[str, Any]:
    """The configuration of a condition's runs: texts, and model or training without what differs between its runs."""
    training = None if condition.training is None else without(asdict(condition.training), OF_RUNS)
    texts = {"corpus": condition.corpus, "texts": condition.test, "balanced": condition.balanced, "parts": condition.parts}
    texts |= {"added_words": True} if condition.added_words else {}
    return without_folders({**texts, "limit": limit, "model": condition.model, "training": training})


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


def require_data(condition: Condition, data_dir: str | None) -> None:
    """Raise an error if the corpus or vectors of a condition are missing, before anything runs."""
    load_corpus(condition.test, data_dir=data_dir)
    if condition.training is not None:
        splits_of(condition.corpus, data_dir=data_dir)
        if condition.training.vectors is not None:
            source_of(str(condition.training.vectors), data_dir)


def on_bistro_where_absent(conditions: Iterable[Condition], data_dir: str | None) -> Iterator[Condition]:
    """The conditions, on the built-in corpus if theirs is missing."""
    for condition in conditions:
        try:
            require_data(condition, data_dir)
            yield condition
        except CorpusError:
            yield replace(condition, corpus="bistro", texts=None)
