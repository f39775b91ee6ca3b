"""Answers: the label that a model predicts for each text, and the probabilities of all."""

from collections.abc import Sequence

from jaxtyping import Float
from torch import Tensor
from transformers import PreTrainedModel

from conoscope.explaining.base import ForwardPass


def predicted_labels(forward: ForwardPass, labels: Sequence[str]) -> list[str | None]:
    """The label that the model predicts for each text; None if it has fewer than two."""
    logits, rows = forward.logits, len(forward.batch.ids)
    return [None] * rows if logits is None or logits.shape[-1] < 2 else [labels[number] for number in logits.argmax(-1).tolist()]


def probabilities(forward: ForwardPass, labels: Sequence[str]) -> list[dict[str, float]]:
    """The probability of each label for each text, of each alone if a text may have several; empty without a classifier."""
    logits, rows = forward.logits, len(forward.batch.ids)
    if logits is None or logits.shape[-1] < 2:
        return [{} for _ in range(rows)]
    return [dict(zip(labels, row, strict=True)) for row in shares(forward.module, logits).detach().cpu().tolist()]


def shares(module: PreTrainedModel, logits: Float[Tensor, "b c"]) -> Float[Tensor, "b c"]:
    """The probability of each class in double precision: of one of them, or of each alone if a text may have several."""
    several = getattr(module.config, "problem_type", None) == "multi_label_classification"
    wide = logits.double()
    return wide.sigmoid() if several else wide.softmax(-1)
