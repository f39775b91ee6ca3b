"""train(): trains a classifier of the family, or a Hugging Face checkpoint, on a corpus, with transformers' Trainer.

Training stops when the validation loss, penalties included, has not fallen for `patience` epochs, and the best epoch's
weights are kept. The same call again resumes an interrupted run from its last complete epoch, and does not repeat a finished one.
"""

import math
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
    TrainingArguments,
    set_seed,
)

from conoscope.capture.class_token import reading_of
from conoscope.capture.loading import LoadedModel
from conoscope.capture.pretrained import without_bars
from conoscope.common.errors import CorpusError, ModelError, one_of
from conoscope.common.keywords import options_from, with_keywords
from conoscope.common.terminal import complain, doing
from conoscope.common.writing import as_output_error, refuse_unspelt
from conoscope.corpora import Columns, Corpus, Texts
from conoscope.training.attention_weights import BACKEND
from conoscope.training.building import build
from conoscope.training.encoding import Collator, Encoded, missing_classes
from conoscope.training.epoch_progress import EpochProgress
from conoscope.training.finished import finished
from conoscope.training.finishing import checkpoints_in, move_finished, write_model
from conoscope.training.memo import Memo
from conoscope.training.new_head import padding_note
from conoscope.training.penalisable import refuse_unpenalisable, refuse_without_attention
from conoscope.training.penalised_trainer import PenalisedTrainer
from conoscope.training.recorded_steps import MULTIPLE, can_be_recorded
from conoscope.training.resuming import identity, last_checkpoint, of_data, same_run
from conoscope.training.scores import accuracy, macro_f1, per_class
from conoscope.training.settings import SAMPLING, Training
from conoscope.training.splits import Part, splits_to_train

__all__ = ["Trained", "Training", "train"]

PRECISIONS = ("auto", "float32", "bfloat16")


@dataclass(frozen=True)
class Trained:
    """The model's folder, the number of epochs, and the scores by split: loss, accuracy, macro F1, and accuracy by class."""

    folder: Path
    epochs: int
    scores: dict[str, dict[str, Any]]


def train(
    splits: Mapping[str, Texts] | Texts,
    out: str | Path,
    settings: Training | Mapping[str, Any] | None = None,
    *,
    callbacks: Sequence[TrainerCallback] = (),
    memo: Memo | None = None,
    validation: Texts | None = None,
    **keywords: Any,
) -> Trained:
    """Train on the split train, stop early by the split validation, score all other splits, and write the model to `out`.

    `splits`: corpora by split; or the name of a corpus, a file, a folder of splits or texts in any form, where a tenth is set
    aside by hash if there is no `validation`. Keywords are the fields of Training, text, label, pair and rationale, and limit, to
    take only the first texts of each split.
    `callbacks`: more callbacks for the Trainer. `memo`: shared with other trainings on the same corpora, to save time.

    >>> train("bistro", "runs/pure", epochs=5, layers=2)
    >>> train({"train": load_corpus("bistro:train"), "validation": load_corpus("bistro:validation")}, "runs/pure")
    """
    chosen, columns, part = with_keywords("train", keywords, options_from(Training, settings), Columns(), Part())
    corpora = part.of(splits_to_train(splits, columns, chosen.seed, validation))
    if missing := [name for name in ("train", "validation") if name not in corpora]:
        raise CorpusError(f"no split {missing[0]!r} to train with; give one to train on and one, validation, to stop by")
    learned = corpora["train"]
    if not learned.labels:
        raise CorpusError(f"{learned} has no labels to learn; name the column of a file with --label, or give a labelled corpus")
    refuse_unspelt(Path(out))
    with as_output_error(out):
        move_finished(Path(out))
    doing("reading the texts")
    if (done := finished(Path(out), chosen, corpora)) is not None:
        if chosen.progress:
            complain(f"{out} holds this very run, finished before; to train once more, give -o a new folder")
        return Trained(Path(out), *done)
    with as_output_error(out), checkpoints_in(Path(out)) as checkpoints, without_bars():
        set_seed(chosen.seed)
        model, tokenizer = build(learned, chosen, memo)
        refuse_without_attention(model, chosen)
        if chosen.progress and chosen.checkpoint and (note := padding_note(str(chosen.checkpoint), model)):
            complain(note)
        data = _encoded(corpora, tokenizer, chosen, memo)
        for note in missing_classes(data, learned.labels) if chosen.progress else ():
            complain(note)
        digests = of_data({name: rows.digest for name, rows in data.items()})
        same_run(checkpoints, {**identity(chosen), "model": LoadedModel(model, tokenizer, "").digest(), **digests})
        trainer = _trainer((model, tokenizer), data, checkpoints, chosen, callbacks)
        with _attending(model, chosen.penalties.any):
            _run(trainer, last_checkpoint(checkpoints))
            doing("scoring the other splits")
            scores = {name: _scores(trainer.evaluate(rows), learned.labels) for name, rows in data.items() if name != "train"}
        if not all(math.isfinite(score["loss"]) for score in scores.values()):
            other = "" if chosen.checkpoint is None else ", or give another checkpoint: this one may overflow by itself"
            raise ModelError(f"training ran off to infinity at a learning rate of {chosen.rate:g}; lower --lr{other}")
        trained = Trained(Path(out), round(trainer.state.epoch or 0), scores)
        write_model(Path(out), (model, tokenizer), data, (chosen, trained.epochs, scores))
    return trained


def _run(trainer: Trainer, checkpoint: str | None) -> None:
    """Train, from a checkpoint if there is one; what is shown meanwhile goes afterwards."""
    try:
        trainer.train(resume_from_checkpoint=checkpoint)
    finally:
        if (shown := trainer.pop_callback(EpochProgress)) is not None:
            shown.close()


def _encoded(
    splits: dict[str, Corpus], tokenizer: PreTrainedTokenizerBase, chosen: Training, memo: Memo | None
) -> dict[str, Encoded]:
    numbers = {label: number for number, label in enumerate(splits["train"].labels)}
    arguments = (numbers, tokenizer, tokenizer.model_max_length, chosen.penalties.any, memo)
    data = {name: Encoded(corpus, *arguments) for name, corpus in splits.items()}
    refuse_unpenalisable(data, tokenizer, chosen)
    return data


@contextmanager
def _attending(model: PreTrainedModel, penalised: bool) -> Iterator[None]:
    """Context manager in which a penalised model uses the attention backend that collects its weights."""
    before = model.config._attn_implementation
    if penalised:
        model.set_attn_implementation(BACKEND)
    try:
        yield
    finally:
        model.set_attn_implementation(before)


def _trainer(
    parts: tuple[PreTrainedModel, PreTrainedTokenizerBase],
    data: dict[str, Encoded],
    checkpoints: Path,
    chosen: Training,
    callbacks: Sequence[TrainerCallback],
) -> Trainer:
    model, tokenizer = parts
    arguments = TrainingArguments(
        output_dir=str(checkpoints),
        num_train_epochs=chosen.epochs,
        per_device_train_batch_size=chosen.batch_size,
        # A sum over a batch is comparable among batches of one size only.
        per_device_eval_batch_size=chosen.batch_size if chosen.penalties.summed else 4 * chosen.batch_size,
        learning_rate=chosen.rate,
        lr_scheduler_type="constant",
        max_grad_norm=0.0 if chosen.checkpoint is None else 1.0,
        train_sampling_strategy=SAMPLING[chosen.batches],
        eval_strategy="epoch",
        save_strategy="epoch",
        save_total_limit=1,
        load_best_model_at_end=True,
        restore_callback_states_from_checkpoint=True,
        metric_for_best_model="eval_loss",
        logging_strategy="no" if chosen.report_to == "none" else "epoch",
        # The filter synchronises with the device at every step.
        logging_nan_inf_filter=chosen.report_to != "none",
        report_to=chosen.report_to,
        # The Trainer's own bars print its logs as dictionaries: EpochProgress takes their place.
        disable_tqdm=True,
        use_cpu=_on_cpu(chosen.device),
        bf16=_mixed(chosen),
        gradient_checkpointing=chosen.gradient_checkpointing,
        gradient_checkpointing_kwargs={"use_reentrant": False} if chosen.gradient_checkpointing else None,
        dataloader_pin_memory=torch.cuda.is_available(),
        remove_unused_columns=False,
        seed=chosen.seed,
    )
    # Several GPUs in one process run in threads, where weights are not collected; torchrun uses all GPUs.
    arguments._n_gpu = min(arguments.n_gpu, 1)
    reading, records = reading_of(model), can_be_recorded(model, chosen, arguments.device, arguments.bf16)
    try:
        trainer = PenalisedTrainer(
            model,
            arguments,
            data_collator=Collator(tokenizer, reading, MULTIPLE if records else 1),
            train_dataset=data["train"],
            eval_dataset=data["validation"],
            compute_metrics=_metrics,
            callbacks=[*_callbacks(chosen), *callbacks],
            penalties=chosen.penalties,
            reading=reading,
            tokenizer=tokenizer,
            records=records,
        )
    except (ValueError, RuntimeError, ImportError) as error:
        if chosen.report_to == "none":
            raise
        raise ModelError(f"cannot report to {chosen.report_to!r}: {' '.join(str(error).split())}; see --report-to") from error
    trainer.remove_callback(PrinterCallback)
    return trainer


def _callbacks(chosen: Training) -> list[TrainerCallback]:
    return [EarlyStoppingCallback(chosen.patience), *([EpochProgress()] if chosen.progress else [])]


def _on_cpu(device: str) -> bool:
    if device not in ("auto", "cpu", "cuda"):
        raise ModelError(f"cannot train on the device {device!r}; give auto, cpu or cuda")
    if device == "cuda" and not torch.cuda.is_available():
        raise ModelError("no device 'cuda' on this machine; try --device cpu")
    return device == "cpu"


def _mixed(chosen: Training) -> bool:
    """Whether to compute in bfloat16: for checkpoints on a GPU that supports it, or if `precision` says so."""
    if chosen.precision not in PRECISIONS:
        raise ModelError(f"no precision {chosen.precision!r}; known: {one_of(PRECISIONS)}")
    able = not _on_cpu(chosen.device) and torch.cuda.is_available() and torch.cuda.is_bf16_supported()
    return chosen.precision == "bfloat16" or (chosen.precision == "auto" and able and chosen.checkpoint is not None)


def _metrics(answers: EvalPrediction) -> dict[str, float]:
    predicted, true = answers.predictions.argmax(-1), answers.label_ids
    classes = answers.predictions.shape[-1]
    recalls = per_class(predicted, true, [str(number) for number in range(classes)])
    return {"accuracy": accuracy(predicted, true), "macro_f1": macro_f1(predicted, true, classes),
            **{f"class_{label}": math.nan if share is None else share for label, share in recalls.items()}}  # fmt: skip


def _scores(metrics: dict[str, float], labels: Sequence[str]) -> dict[str, Any]:
    recalls = {label: metrics[f"eval_class_{number}"] for number, label in enumerate(labels)}
    return {
        **{name: metrics[f"eval_{name}"] for name in ("loss", "accuracy", "macro_f1")},
        "by_class": {label: None if math.isnan(share) else share for label, share in recalls.items()},
    }
