"""train(): a self-attention classifier on a corpus, with transformers' Trainer.

Training stops when the validation loss has not fallen for `patience` epochs, and the best epoch's weights are kept.
"""

import json
import math
import shutil
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch.utils.data import Dataset
from transformers import (
    DataCollatorWithPadding,
    EarlyStoppingCallback,
    EvalPrediction,
    PreTrainedTokenizerBase,
    PrinterCallback,
    Trainer,
    TrainerCallback,
    TrainerControl,
    TrainerState,
    TrainingArguments,
    set_seed,
)

from conoscope.corpora import Corpus
from conoscope.errors import CorpusError, ModelError, OutputError, one_of
from conoscope.models import SelfAttentionForSequenceClassification, preset
from conoscope.result import make_folder
from conoscope.tokenizer import build_tokenizer

CHECKPOINTS = "checkpoints"


@dataclass(frozen=True)
class Training:
    """How to train; the defaults learn `bistro` in about a minute on one core."""

    preset: str = "pure-attention"
    layers: int = 3
    width: int = 64
    heads: int = 1
    epochs: int = 50
    patience: int = 5
    learning_rate: float = 1e-3
    batch_size: int = 64
    max_length: int = 512
    seed: int = 0
    device: str = "auto"
    progress: bool = False


@dataclass(frozen=True)
class Trained:
    """Where the model is, how many epochs it took, and its loss and accuracy by split."""

    folder: Path
    epochs: int
    scores: dict[str, dict[str, float]]


class Encoded(Dataset[dict[str, Any]]):
    """The examples of a corpus as token ids and as numbers of the labels that are learned."""

    def __init__(self, corpus: Corpus, labels: Sequence[str], tokenizer: PreTrainedTokenizerBase, max_length: int) -> None:
        numbers = {label: number for number, label in enumerate(labels)}
        if unknown := set(corpus.labels) - set(labels):
            raise CorpusError(f"{corpus} has the label {one_of(unknown)}, which is not among those to learn: {one_of(labels)}")
        self.rows = [
            {**tokenizer(*_texts(e.text, e.pair), truncation=True, max_length=max_length), "labels": numbers[e.label]}
            for e in corpus
            if e.label is not None
        ]
        if not self.rows:
            raise CorpusError(f"{corpus} has no labelled example; training needs some to learn from and some to stop by")

    def __len__(self) -> int:
        return len(self.rows)

    def __getitem__(self, index: int) -> dict[str, Any]:
        return self.rows[index]


def _texts(text: str, pair: str | None) -> tuple[str, ...]:
    return (text,) if pair is None else (text, pair)


def train(splits: dict[str, Corpus], out: str | Path, settings: Training | None = None) -> Trained:
    """Train on `splits["train"]`, stop by `splits["validation"]`, score every other split, write the model to `out`.

    >>> train({"train": load_corpus("bistro:train"), "validation": load_corpus("bistro:validation")}, "runs/pure")
    """
    chosen, folder = settings or Training(), _new(Path(out))
    learned = splits["train"]
    if not learned.labels:
        raise CorpusError(f"{learned} has no labels to learn; name the column of a file with --label, or give a labelled corpus")
    set_seed(chosen.seed)
    tokenizer = build_tokenizer(text for example in learned for text in _texts(example.text, example.pair))
    model = SelfAttentionForSequenceClassification(
        preset(
            chosen.preset,
            vocab_size=len(tokenizer),
            hidden_size=chosen.width,
            num_hidden_layers=chosen.layers,
            num_attention_heads=chosen.heads,
            id2label=dict(enumerate(learned.labels)),
            label2id={label: number for number, label in enumerate(learned.labels)},
        )
    )
    data = {name: Encoded(corpus, learned.labels, tokenizer, chosen.max_length) for name, corpus in splits.items()}
    with _checkpoints(folder) as checkpoints:
        trainer = _trainer(model, tokenizer, data, checkpoints, chosen)
        trainer.train()
        trainer.remove_callback(_EpochLines)
        scores = {name: _scores(trainer.evaluate(rows)) for name, rows in data.items() if name != "train"}
        if not all(math.isfinite(score["loss"]) for score in scores.values()):
            raise ModelError(f"training ran off to infinity at a learning rate of {chosen.learning_rate:g}; lower --lr")
        trained = Trained(folder, round(trainer.state.epoch or 0), scores)
        model.save_pretrained(folder)
        tokenizer.save_pretrained(folder)
        described = {"corpus": str(learned), "settings": asdict(chosen), "epochs": trained.epochs, "scores": scores}
        (folder / "training.json").write_text(json.dumps(described, indent=2) + "\n")
    return trained


@contextmanager
def _checkpoints(folder: Path) -> Iterator[Path]:
    """The Trainer's own folder. It holds pickles: whatever happens, it does not outlive the run."""
    checkpoints = folder / CHECKPOINTS
    try:
        yield checkpoints
    finally:
        shutil.rmtree(checkpoints, ignore_errors=True)
        if folder.is_dir() and not any(folder.iterdir()):
            folder.rmdir()


def _new(folder: Path) -> Path:
    """A folder with nothing in it but, perhaps, what a run that was killed had left."""
    if any(path.name != CHECKPOINTS for path in make_folder(folder).iterdir()):
        raise OutputError(f"{folder} is there already and not empty; give -o a new folder")
    return folder


def _trainer(
    model: SelfAttentionForSequenceClassification,
    tokenizer: PreTrainedTokenizerBase,
    data: dict[str, Encoded],
    checkpoints: Path,
    chosen: Training,
) -> Trainer:
    arguments = TrainingArguments(
        output_dir=str(checkpoints),
        num_train_epochs=chosen.epochs,
        per_device_train_batch_size=chosen.batch_size,
        per_device_eval_batch_size=4 * chosen.batch_size,
        learning_rate=chosen.learning_rate,
        lr_scheduler_type="constant",
        max_grad_norm=0.0,
        train_sampling_strategy="group_by_length",
        eval_strategy="epoch",
        save_strategy="epoch",
        save_total_limit=1,
        save_only_model=True,
        load_best_model_at_end=True,
        metric_for_best_model="eval_loss",
        logging_strategy="no",
        report_to="none",
        disable_tqdm=not (chosen.progress and sys.stderr.isatty()),
        use_cpu=_on_cpu(chosen.device),
        dataloader_pin_memory=torch.cuda.is_available(),
        seed=chosen.seed,
    )
    trainer = Trainer(
        model,
        arguments,
        data_collator=DataCollatorWithPadding(tokenizer),
        train_dataset=data["train"],
        eval_dataset=data["validation"],
        compute_metrics=_accuracy,
        callbacks=[EarlyStoppingCallback(chosen.patience), *([_EpochLines()] if chosen.progress else [])],
    )
    trainer.remove_callback(PrinterCallback)
    return trainer


def _on_cpu(device: str) -> bool:
    if device not in ("auto", "cpu", "cuda"):
        raise ModelError(f"cannot train on the device {device!r}; give auto, cpu or cuda")
    if device == "cuda" and not torch.cuda.is_available():
        raise ModelError("no device 'cuda' on this machine; try --device cpu")
    return device == "cpu"


class _EpochLines(TrainerCallback):  # type: ignore[misc]
    """One line an epoch on standard error."""

    def on_evaluate(self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any) -> None:
        scores = _scores(kwargs["metrics"])
        print(
            f"epoch {state.epoch:.0f}: validation loss {scores['loss']:.4f}, accuracy {scores['accuracy']:.4f}", file=sys.stderr
        )


def _accuracy(predicted: EvalPrediction) -> dict[str, float]:
    return {"accuracy": float(np.mean(predicted.predictions.argmax(-1) == predicted.label_ids))}


def _scores(metrics: dict[str, float]) -> dict[str, float]:
    return {"loss": metrics["eval_loss"], "accuracy": metrics["eval_accuracy"]}
