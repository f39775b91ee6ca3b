"""train(): a classifier of the family, or a Hugging Face checkpoint, on a corpus, with transformers' Trainer.

Training stops when the validation loss, penalties included, has not fallen for `patience` epochs, and the best epoch's
weights are kept. A run that was stopped goes on from its last whole epoch.
"""

import json
import math
import shutil
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from transformers import (
    EarlyStoppingCallback,
    EvalPrediction,
    PreTrainedModel,
    PreTrainedTokenizerBase,
    PrinterCallback,
    Trainer,
    TrainerCallback,
    TrainerControl,
    TrainerState,
    TrainingArguments,
    set_seed,
)

from conoscope.building import build
from conoscope.card import card, described
from conoscope.corpora import Corpus, Texts, corpus_of
from conoscope.encoding import Collator, Encoded
from conoscope.errors import ConoscopeError, CorpusError, ModelError, OutputError, one_of
from conoscope.loading import LoadedModel, load_model
from conoscope.penalised import PenalisedTrainer
from conoscope.reading import reading_of
from conoscope.resuming import identity, last_checkpoint, of_data, same_run
from conoscope.retraining import padding_note
from conoscope.scores import accuracy, macro_f1, per_class
from conoscope.settings import Training
from conoscope.terminal import complain, say
from conoscope.weights import BACKEND
from conoscope.writing import make_folder, move_into, refuse_unspelt, write_text

__all__ = ["Trained", "Training", "train"]

CHECKPOINTS = "checkpoints"
PRECISIONS = ("auto", "float32", "bfloat16")


@dataclass(frozen=True)
class Trained:
    """Where the model is, how many epochs it took, and its scores by split: loss, accuracy, and accuracy by class."""

    folder: Path
    epochs: int
    scores: dict[str, dict[str, Any]]


def train(splits: Mapping[str, Texts], out: str | Path, settings: Training | None = None) -> Trained:
    """Train on `splits["train"]`, stop by `splits["validation"]`, score every other split, write the model to `out`.

    >>> train({"train": load_corpus("bistro:train"), "validation": load_corpus("bistro:validation")}, "runs/pure")
    """
    chosen, corpora = settings or Training(), {name: corpus_of(texts) for name, texts in splits.items()}
    if missing := [name for name in ("train", "validation") if name not in corpora]:
        raise CorpusError(f"no split {missing[0]!r} to train with; give one to train on and one, validation, to stop by")
    learned = corpora["train"]
    if not learned.labels:
        raise CorpusError(f"{learned} has no labels to learn; name the column of a file with --label, or give a labelled corpus")
    refuse_unspelt(Path(out))
    with _checkpoints(Path(out), chosen.resume) as checkpoints:
        set_seed(chosen.seed)
        model, tokenizer = build(learned, chosen)
        _refuse_unpenalisable(model, chosen)
        if chosen.progress and chosen.checkpoint and (note := padding_note(str(chosen.checkpoint), model)):
            complain(note)
        data = _encoded(corpora, tokenizer, chosen)
        digests = of_data({name: rows.digest for name, rows in data.items()})
        same_run(checkpoints, {**identity(chosen), "model": LoadedModel(model, tokenizer, "").digest(), **digests})
        trainer = _trainer(model, tokenizer, data, checkpoints, chosen)
        with _attending(model, chosen.penalties.any):
            trainer.train(resume_from_checkpoint=last_checkpoint(checkpoints))
            trainer.remove_callback(_EpochLines)
            scores = {name: _scores(trainer.evaluate(rows), learned.labels) for name, rows in data.items() if name != "train"}
        if not all(math.isfinite(score["loss"]) for score in scores.values()):
            other = "" if chosen.checkpoint is None else ", or give another checkpoint: this one may overflow by itself"
            raise ModelError(f"training ran off to infinity at a learning rate of {chosen.rate:g}; lower --lr{other}")
        trained = Trained(Path(out), round(trainer.state.epoch or 0), scores)
        _write(trained, (model, tokenizer), data, (checkpoints, chosen))
    return trained


def _encoded(splits: dict[str, Corpus], tokenizer: PreTrainedTokenizerBase, chosen: Training) -> dict[str, Encoded]:
    numbers = {label: number for number, label in enumerate(splits["train"].labels)}
    how = (numbers, tokenizer, tokenizer.model_max_length, chosen.penalties.any)
    data = {name: Encoded(corpus, *how) for name, corpus in splits.items()}
    if chosen.penalties.supervised and not data["train"].marked:
        raise CorpusError(f"{splits['train']} has no rationales to penalise by; name their column with --rationale")
    return data


def _refuse_unpenalisable(model: PreTrainedModel, chosen: Training) -> None:
    if chosen.penalties.any and getattr(model.config, "num_hidden_layers", 1) == 0:
        raise ModelError(f"{chosen.preset} has no layers of attention to penalise; leave the penalties out")


def _write(
    trained: Trained,
    made: tuple[PreTrainedModel, PreTrainedTokenizerBase],
    data: dict[str, Encoded],
    how: tuple[Path, Training],
) -> None:
    """The model, its card and training.json, put together beside the checkpoints and moved into place at once."""
    checkpoints, chosen = how
    staged = checkpoints / "finished"
    for part in made:
        part.save_pretrained(staged)
    loaded = load_model(staged, device="cpu")
    corpora = {name: {"name": rows.name, "examples": len(rows), "digest": rows.digest} for name, rows in data.items()}
    size = sum(p.numel() for p in loaded.module.parameters())
    model = {"hash": loaded.digest(), "parameters": size, "epochs": trained.epochs}
    facts = described(chosen, corpora, model, trained.scores)
    write_text(staged / "README.md", card(facts))
    write_text(staged / "training.json", json.dumps(facts, indent=2) + "\n")
    logs = [path for path in checkpoints.glob("runs") if path.is_dir()]
    move_into(trained.folder, (*logs, *staged.iterdir()), last="training.json")


@contextmanager
def _checkpoints(folder: Path, resume: bool) -> Iterator[Path]:
    """The Trainer's own folder, which holds pickles: it outlives only a run that did not end well, for --resume."""
    checkpoints = make_folder(folder) / CHECKPOINTS
    if any(path.name != CHECKPOINTS for path in folder.iterdir()):
        raise OutputError(f"{folder} is there already and not empty; give -o a new folder")
    before = last_checkpoint(checkpoints)
    if before and not resume:
        raise OutputError(f"{folder} holds a run that was stopped; --resume goes on with it, or give -o a new folder")
    if not before:
        shutil.rmtree(checkpoints, ignore_errors=True)
    checkpoints.mkdir(exist_ok=True)
    keep = False
    try:
        yield checkpoints
    except ConoscopeError:
        keep = before is not None
        raise
    except BaseException:
        keep = last_checkpoint(checkpoints) is not None
        raise
    finally:
        if not keep:
            shutil.rmtree(checkpoints, ignore_errors=True)
        if not any(folder.iterdir()):
            folder.rmdir()


@contextmanager
def _attending(model: PreTrainedModel, penalised: bool) -> Iterator[None]:
    """Within it, a model under penalties attends so that its weights can be collected."""
    before = model.config._attn_implementation
    if penalised:
        model.set_attn_implementation(BACKEND)
    try:
        yield
    finally:
        model.set_attn_implementation(before)


def _trainer(
    model: PreTrainedModel,
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
        learning_rate=chosen.rate,
        lr_scheduler_type="constant",
        max_grad_norm=0.0 if chosen.checkpoint is None else 1.0,
        train_sampling_strategy="group_by_length",
        eval_strategy="epoch",
        save_strategy="epoch",
        save_total_limit=1,
        load_best_model_at_end=True,
        restore_callback_states_from_checkpoint=True,
        metric_for_best_model="eval_loss",
        logging_strategy="no" if chosen.report_to == "none" else "epoch",
        # The filter waits for the device at every step.
        logging_nan_inf_filter=chosen.report_to != "none",
        report_to=chosen.report_to,
        disable_tqdm=not (chosen.progress and sys.stderr.isatty()),
        use_cpu=_on_cpu(chosen.device),
        bf16=_mixed(chosen),
        gradient_checkpointing=chosen.gradient_checkpointing,
        gradient_checkpointing_kwargs={"use_reentrant": False} if chosen.gradient_checkpointing else None,
        dataloader_pin_memory=torch.cuda.is_available(),
        remove_unused_columns=False,
        seed=chosen.seed,
    )
    # Several GPUs in one process run in threads, in which nobody collects weights; torchrun uses them all.
    arguments._n_gpu = min(arguments.n_gpu, 1)
    reading = reading_of(model)
    try:
        trainer = PenalisedTrainer(
            model,
            arguments,
            data_collator=Collator(tokenizer, reading),
            train_dataset=data["train"],
            eval_dataset=data["validation"],
            compute_metrics=_metrics,
            callbacks=_callbacks(chosen),
            penalties=chosen.penalties,
            reading=reading,
            tokenizer=tokenizer,
        )
    except (ValueError, RuntimeError, ImportError) as error:
        if chosen.report_to == "none":
            raise
        raise ModelError(f"cannot report to {chosen.report_to!r}: {' '.join(str(error).split())}; see --report-to") from error
    trainer.remove_callback(PrinterCallback)
    return trainer


def _callbacks(chosen: Training) -> list[TrainerCallback]:
    return [EarlyStoppingCallback(chosen.patience), *([_EpochLines()] if chosen.progress else [])]


def _on_cpu(device: str) -> bool:
    if device not in ("auto", "cpu", "cuda"):
        raise ModelError(f"cannot train on the device {device!r}; give auto, cpu or cuda")
    if device == "cuda" and not torch.cuda.is_available():
        raise ModelError("no device 'cuda' on this machine; try --device cpu")
    return device == "cpu"


def _mixed(chosen: Training) -> bool:
    """Whether to compute in bfloat16 where that is safe: for checkpoints, on a GPU that has it, or when asked."""
    if chosen.precision not in PRECISIONS:
        raise ModelError(f"no precision {chosen.precision!r}; known: {one_of(PRECISIONS)}")
    able = not _on_cpu(chosen.device) and torch.cuda.is_available() and torch.cuda.is_bf16_supported()
    return chosen.precision == "bfloat16" or (chosen.precision == "auto" and able and chosen.checkpoint is not None)


class _EpochLines(TrainerCallback):  # type: ignore[misc]
    """One line an epoch on standard error."""

    def on_evaluate(self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any) -> None:
        metrics = kwargs["metrics"]
        said = f"validation loss {metrics['eval_loss']:.4f}, accuracy {metrics['eval_accuracy']:.4f}"
        say(f"epoch {state.epoch:.0f}: {said}", error=True)


def _metrics(answers: EvalPrediction) -> dict[str, float]:
    predicted, true = answers.predictions.argmax(-1), answers.label_ids
    classes = answers.predictions.shape[-1]
    found = per_class(predicted, true, [str(number) for number in range(classes)])
    return {"accuracy": accuracy(predicted, true), "macro_f1": macro_f1(predicted, true, classes),
            **{f"class_{label}": math.nan if share is None else share for label, share in found.items()}}  # fmt: skip


def _scores(metrics: dict[str, float], labels: Sequence[str]) -> dict[str, Any]:
    found = {label: metrics[f"eval_class_{number}"] for number, label in enumerate(labels)}
    return {
        **{name: metrics[f"eval_{name}"] for name in ("loss", "accuracy", "macro_f1")},
        "by_class": {label: None if math.isnan(share) else share for label, share in found.items()},
    }
