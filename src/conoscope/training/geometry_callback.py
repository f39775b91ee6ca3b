"""GeometryCallback: measures the geometry of attention during training, in any Trainer, with one line.

>>> trainer.add_callback(GeometryCallback(tokenizer, load_corpus("bistro:validation"), every=100))
"""

import math
from collections import defaultdict
from collections.abc import Callable
from functools import partial
from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor
from transformers import (
    PreTrainedModel,
    PreTrainedTokenizerBase,
    TrainerCallback,
    TrainerControl,
    TrainerState,
    TrainingArguments,
)

from conoscope.capture.loading import LoadedModel
from conoscope.capture.recorder import Capture
from conoscope.capture.trace import PooledOutput
from conoscope.common.bounds import POSITIVE, within
from conoscope.common.errors import MeasureError, OverflowedError
from conoscope.corpora import Corpus, Texts, corpus_of
from conoscope.measures import request
from conoscope.measures.tally import Tally
from conoscope.results.from_sums import table

MEASURES = ("sim", "attention_entropy")
WHEN = ("step", "epoch")
"""What a row has beside values."""
EPOCH = "epoch"


class GeometryCallback(TrainerCallback):  # type: ignore[misc]
    """Callback that measures the first `size` examples before training and every `every` steps, or with `every="epoch"` at the
    end of each epoch. With None in place of the tokenizer, the Trainer's is used.

    It does not affect training; if the model overflows, the values are NaN. `rows` has one dictionary a step: `sim_key_1`,
    `sim_value_1`, `entropy_1`, `separation_1` and so on by layer, means over heads, with `step` and `epoch`. They also go into
    the Trainer's history; its loggers get them with `callback.report = trainer.log`. Separation is the mean cosine of the vector
    that the classifier reads ([CLS], the last token or the mean of the tokens) with the mean direction of its own class, minus
    that with the other classes.
    """

    def __init__(self, tokenizer: PreTrainedTokenizerBase | None, corpus: Texts, every: int | str = 100, size: int = 64) -> None:
        if isinstance(every, str) and every != EPOCH:
            raise MeasureError(f"every={every!r} is neither a number of steps nor {EPOCH!r}; give one of them")
        self.tokenizer, corpus = tokenizer, corpus_of(corpus)
        self.every = every if every == EPOCH else within("every", every, POSITIVE)
        self.corpus = Corpus.of(corpus.first(within("size", size, POSITIVE)), str(corpus))
        self.rows: list[dict[str, float]] = []
        self.report: Callable[[dict[str, float]], None] | None = None

    def on_train_begin(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, model: Any = None, **kwargs: Any
    ) -> None:
        """Measure before training."""
        self._measure(model, state, kwargs.get("processing_class"))

    def on_step_end(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, model: Any = None, **kwargs: Any
    ) -> None:
        """Measure every `every` steps."""
        if self.every != EPOCH and state.global_step % int(self.every) == 0:
            self._measure(model, state, kwargs.get("processing_class"))

    def on_epoch_end(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, model: Any = None, **kwargs: Any
    ) -> None:
        """Measure at the end of an epoch, if that is asked for."""
        if self.every == EPOCH:
            self._measure(model, state, kwargs.get("processing_class"))

    def _measure(self, model: Any, state: TrainerState, given: PreTrainedTokenizerBase | None) -> None:
        tokenizer = self.tokenizer or given
        if tokenizer is None:
            raise MeasureError("the Trainer has no tokenizer to measure with; give GeometryCallback the model's")
        try:
            values = geometry(model, tokenizer, self.corpus)
        except OverflowedError:
            # If training diverges, stopping it is up to the Trainer.
            values = {name: math.nan for name in (self.rows[-1] if self.rows else ()) if name not in WHEN}
        when = {"step": state.global_step, "epoch": float(state.epoch or 0)}
        self.rows.append({**values, **when})
        if self.report is None:
            state.log_history.append({**values, **when})
        else:
            self.report(values)


def geometry(model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase, corpus: Corpus) -> dict[str, float]:
    """By layer: SIM of keys and values, entropy of all rows, and the separation of the classes."""
    loaded = LoadedModel(model, tokenizer, type(model).__name__, tuple(map(str, model.config.id2label.values())))
    batcher = loaded.batcher(corpus.unlabelled())
    batcher.labels = {label: number for number, label in enumerate(corpus.labels)}
    requests = [request(name) for name in MEASURES]
    tally = Tally.for_needs(need for requested in requests for need in requested.needs())
    vectors: dict[int, list[tuple[Tensor, Tensor]]] = defaultdict(list)

    def keep(answer: PooledOutput) -> None:
        labelled = answer.there & (answer.batch.label >= 0)
        if answer.hidden is not None and labelled.any():
            vectors[answer.layer].append((answer.hidden[labelled].double(), answer.batch.label[labelled]))

    with Capture(loaded.module, "full") as capture:
        for batch in batcher.batches(corpus, 32):
            loaded.answer(batch, partial(capture, receive=tally.add, answer=keep))
    separations = {
        f"separation_{layer}": separation(*map(torch.cat, zip(*seen, strict=True)))
        for layer, seen in vectors.items()
        if layer and len(corpus.labels) > 1
    }
    return {**_means(requests, tally), **separations}


def separation(vectors: Float[Tensor, "n d"], labels: Int[Tensor, " n"]) -> float:
    """Mean cosine with the mean direction of the own class, minus that with the other classes'; NaN for one class."""
    unit = torch.nn.functional.normalize(vectors, dim=-1)
    classes = labels.unique()
    directions = torch.nn.functional.normalize(torch.stack([unit[labels == c].mean(0) for c in classes]), dim=-1)
    cosines = unit @ directions.T
    own = labels[:, None] == classes
    return float(cosines[own].mean() - cosines[~own].mean())


def _means(requests: list[Any], tally: Tally) -> dict[str, float]:
    sim, entropy = (table(requested, tally) for requested in requests)
    by_head = sim[sim["head"].notna() & sim["site"].isin(["key", "value"])]
    means = by_head.groupby(["site", "layer"], as_index=False)["value"].mean()
    sims = {f"sim_{row.site}_{row.layer}": float(row.value) for row in means.itertuples()}
    rows = entropy[entropy["row"] == "all"].groupby("layer")["value"].mean()
    return {**sims, **{f"entropy_{layer}": float(value) for layer, value in rows.items()}}
