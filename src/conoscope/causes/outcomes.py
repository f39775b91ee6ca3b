"""Outcomes: what taking each part away did to the answer to each text."""

from dataclasses import dataclass, fields
from pathlib import Path

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor

from conoscope.common.errors import OutputError
from conoscope.common.writing import atomic

WHAT = ("logit_predicted", "probability_predicted", "changed", "accuracy", "logit_true", "probability_true")
"""What is watched: the logit and the probability of the class that the plain model predicts, whether another class is predicted,
whether the prediction is right, the logit and the probability of the true class."""
OF_TRUTH = WHAT[3:]
"""What needs a label."""
OF_ANSWERS = ("changed", "accuracy")
"""What is a whole number in each text, -1, 0 or 1."""


@dataclass(frozen=True)
class Outcomes:
    """Arrays with a row for each text: after minus before for each way, part and WHAT (`changed`: 1 or 0), NaN where a text has
    no label; first-order estimates of the first of WHAT; the text's number; whether the plain model is right, NaN without a
    label."""

    effects: Float[np.ndarray, "n hows parts what"]
    estimates: Float[np.ndarray, "n hows parts"]
    places: Int[np.ndarray, " n"]
    correct: Float[np.ndarray, " n"]

    def __add__(self, other: "Outcomes") -> "Outcomes":
        """The texts of both, ordered by their numbers."""
        places = np.concatenate((self.places, other.places))
        order = np.argsort(places, kind="stable")
        both = {f.name: np.concatenate((getattr(self, f.name), getattr(other, f.name)))[order] for f in fields(self)}
        return Outcomes(**both)

    def save(self, path: Path) -> None:
        """Write the arrays to one file."""
        from safetensors.numpy import save_file

        arrays = {f.name: np.ascontiguousarray(getattr(self, f.name)) for f in fields(self)}
        with atomic(path) as beside:
            save_file(arrays, beside)

    @classmethod
    def load(cls, path: Path) -> "Outcomes":
        """The arrays of a file that `save` wrote; OutputError if it cannot be read."""
        from safetensors import SafetensorError
        from safetensors.numpy import load_file

        try:
            return cls(**load_file(path))
        except (OSError, SafetensorError, TypeError) as error:
            raise OutputError(f"no outcomes can be read from {path}: {error}; ablate again") from error


def empty(hows: int, parts: int) -> Outcomes:
    """The outcomes of no text."""
    return Outcomes(
        np.zeros((0, hows, parts, len(WHAT)), np.float32),
        np.zeros((0, hows, parts), np.float32),
        np.zeros(0, np.int64),
        np.zeros(0, np.float32),
    )


def effects_of(
    before: Float[Tensor, "b c"], after: Float[Tensor, "k b c"], label: Int[Tensor, " b"]
) -> Float[Tensor, "b k what"]:
    """After minus before, in double precision."""
    before, after = before.double()[None], after.double()
    predicted = before.argmax(-1)
    labelled = (label >= 0) & (label < before.shape[-1])
    true = label.where(labelled, 0)[None]

    def of(logits: Tensor) -> list[Tensor]:
        chances, rows = logits.softmax(-1), len(logits)
        at, known = predicted.expand(rows, -1)[..., None], true.expand(rows, -1)[..., None]
        answer = logits.argmax(-1)
        watched = (logits.gather(-1, at), chances.gather(-1, at), logits.gather(-1, known), chances.gather(-1, known))
        logit, chance, logit_true, chance_true = (x[..., 0] for x in watched)
        truths = ((answer == true).double(), logit_true, chance_true)
        return [logit, chance, (answer != predicted).double(), *(x.where(labelled, torch.nan) for x in truths)]

    return torch.stack([x - y for x, y in zip(of(after), of(before), strict=True)], -1).transpose(0, 1)


def correct_of(before: Float[Tensor, "b c"], label: Int[Tensor, " b"]) -> Float[Tensor, " b"]:
    """Whether the plain answer is right: 1 or 0, NaN without a label."""
    labelled = (label >= 0) & (label < before.shape[-1])
    return (before.argmax(-1) == label).double().where(labelled, torch.nan)
