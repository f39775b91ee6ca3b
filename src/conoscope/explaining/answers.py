"""Answers: the label that a model predicts for each text, and the probabilities of all."""

from collections.abc import Sequence

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
    several = getattr(forward.module.config, "problem_type", None) == "multi_label_classification"
    shares = logits.double().sigmoid() if several else logits.double().softmax(-1)
    return [dict(zip(labels, row, strict=True)) for row in shares.detach().cpu().tolist()]
