"""Steering: the vector that is classified from is turned, or lengthened, step by step, and the model runs on."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, fields

import numpy as np
import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from conoscope.capture.forward import within_memory
from conoscope.causes.directions import Directions, read_at
from conoscope.causes.editor import Editor
from conoscope.causes.judging import at_token
from conoscope.causes.passes import Kept
from conoscope.causes.turning import across, angle_between, degrees, lengthened, turned

WAYS = ("class", "random", "shuffled", "length")
"""What a vector is turned towards: the class's direction, and controls; `length` lengthens it by as much."""
ROOM = {"cpu": 1 << 12, "cuda": 1 << 16}
"""How many tokens of copies run side by side."""


@dataclass(frozen=True)
class Steps:
    """How far vectors are turned: by angles in degrees, and by shares of the angle to the target."""

    angles: tuple[float, ...]
    shares: tuple[float, ...]

    @property
    def named(self) -> list[tuple[str, float]]:
        """Each step as what it is of and how far; the first of each is 0."""
        return [("angle", x) for x in (0.0, *self.angles)] + [("share", x) for x in (0.0, *self.shares)]

    def of(self, aim: Float[Tensor, " b"]) -> Float[Tensor, "s b"]:
        """The angle of each step in radians, given the angle to each text's target."""
        return torch.stack([torch.full_like(aim, math.radians(x)) if by == "angle" else x * aim for by, x in self.named])


@dataclass(frozen=True)
class Outcomes:
    """What the answers to each text were: with a row for each text, by layer, way and step.

    `flipped`: 1 if the answer is the target, `changed`: 1 if it is another than before, `probability` of the target; NaN where
    nothing can be turned. `angle`: how far each step turns, `aim`: the angle to the target, in degrees. `source`: the class that
    the plain model predicts; `target`: -1 where the text is left out. `correct`: 1 or 0, NaN without a label.
    """

    flipped: Float[np.ndarray, "n l w s"]
    changed: Float[np.ndarray, "n l w s"]
    probability: Float[np.ndarray, "n l w s"]
    angle: Float[np.ndarray, "n l s"]
    aim: Float[np.ndarray, "n l"]
    source: Int[np.ndarray, " n"]
    target: Int[np.ndarray, " n"]
    correct: Float[np.ndarray, " n"]
    place: Int[np.ndarray, " n"]

    @classmethod
    def together(cls, parts: Sequence["Outcomes"]) -> "Outcomes":
        """The texts of all parts in the order of the corpus."""
        order = np.argsort(np.concatenate([part.place for part in parts]), kind="stable")
        return cls(**{f.name: np.concatenate([getattr(part, f.name) for part in parts])[order] for f in fields(cls)})

    def of(self, chosen: Bool[np.ndarray, " n"]) -> "Outcomes":
        """Some of the texts."""
        return Outcomes(**{f.name: getattr(self, f.name)[chosen] for f in fields(self)})


@dataclass(frozen=True)
class Steerer:
    """Turns the vectors of texts in some layers."""

    editor: Editor
    directions: Directions
    layers: Sequence[int]
    steps: Steps

    def __call__(self, kept: Kept) -> Outcomes:
        """The outcomes of a batch, from a plain pass over it that kept hidden states."""
        batch = kept.batch
        predicted = kept.answer.argmax(-1)
        target = self.directions.targets(predicted, batch.place)
        drawn = self.directions.coefficients(batch, predicted, target)
        found, angles, aims = [], [], []
        for layer in self.layers:
            x = read_at(kept.vectors["hidden", layer], batch).double()
            towards = self.directions.classes[layer][target.clamp_min(0)]
            aims.append(angle_between(x, towards))
            # A text that is left out has no target, and is turned by nothing.
            angles.append(self.steps.of(aims[-1].nan_to_num(0.0)))
            sides = [across(x, towards), *(across(x, each @ self.directions.units[layer]) for each in drawn)]
            here = self._of_layer(kept, layer, self._moved(x, sides, angles[-1]), target, predicted)
            spans = torch.stack([~side.isnan().any(-1) for side in (*sides, x)])  # length has a side always
            found.append(here.where(spans[:, None], torch.nan))
        outcomes = torch.stack(found, 1)  # (what, l, w, s, b)
        flipped, changed, probability = outcomes.permute(0, 4, 1, 2, 3).cpu().numpy()
        label = batch.label
        correct = (predicted == label).double().where(label >= 0, torch.nan)
        return Outcomes(
            flipped,
            changed,
            probability,
            degrees(torch.stack(angles)).permute(2, 0, 1).cpu().numpy(),
            degrees(torch.stack(aims, -1)).cpu().numpy(),
            *(each.cpu().numpy() for each in (predicted, target, correct, batch.place)),
        )

    def _moved(
        self, x: Float[Tensor, "b d"], sides: Sequence[Float[Tensor, "b d"]], angles: Float[Tensor, "s b"]
    ) -> list[list[Tensor]]:
        """The new vectors by way and step; x itself where a text has no side to turn to."""
        ways = [[turned(x, side, angle) for angle in angles] for side in sides]
        return [*ways, [lengthened(x, angle) for angle in angles]]

    def _of_layer(
        self,
        kept: Kept,
        layer: int,
        moved: Sequence[Sequence[Float[Tensor, "b d"]]],
        target: Int[Tensor, " b"],
        predicted: Int[Tensor, " b"],
    ) -> Float[Tensor, "what w s b"]:
        """Flipped, changed and probability of the target; steps of 0 are the plain answer."""
        runs = [(way, step) for way in range(len(moved)) for step, (_, far) in enumerate(self.steps.named) if far]
        room = ROOM.get(kept.answer.device.type, ROOM["cuda"])
        beside = max(1, room // kept.batch.real.numel())
        answers: list[Tensor] = []
        for begin in range(0, len(runs), beside):
            some = [[at_token(layer, moved[way][step], kept)] for way, step in runs[begin : begin + beside]]
            with within_memory(kept.batch):
                answers += self.editor.rerun(kept, some)
        by_run = dict(zip(runs, answers, strict=True))
        logits = torch.stack(
            [
                torch.stack([by_run.get((way, step), kept.answer) for step in range(len(self.steps.named))])
                for way in range(len(moved))
            ]
        ).double()
        answer = logits.argmax(-1)
        chance = logits.softmax(-1).gather(-1, target.clamp_min(0).expand(answer.shape)[..., None])[..., 0]
        return torch.stack(((answer == target).double(), (answer != predicted).double(), chance))
