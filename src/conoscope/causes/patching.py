"""Patching: runs a text with vectors of another text, place by place and layer by layer."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from conoscope.causes.editor import Editor
from conoscope.causes.edits import Edit, Site, replaced
from conoscope.causes.pairs import Answered
from conoscope.causes.passes import Kept

ROOM = {"cpu": 1 << 12, "cuda": 1 << 16}
"""How many tokens of copies run side by side."""


@dataclass(frozen=True)
class Moved:
    """The answers with one place of a layer patched, or of one of its heads; without a place, all whose tokens differ.

    Whether the answer is the other text's, how far the margin moved there, 0 for not at all and 1 for all the way, and the
    probability of the other text's answer; NaN for a pair without such a place.
    """

    layer: int
    head: int | None
    place: int | None
    flipped: Float[Tensor, " n"]
    moved: Float[Tensor, " n"]
    probability: Float[Tensor, " n"]


class Patcher:
    """Patches pairs at one site of every layer in which it is found: contexts head by head."""

    def __init__(self, editor: Editor, site: Site) -> None:
        self.editor, self.site = editor, site
        self.layers = editor.layers_of(site)

    def __call__(self, answers: Answered) -> list[Moved]:
        """Every place by itself in every layer, and all places whose tokens differ together."""
        source = self.editor.keep(answers.source, (self.site,)).vectors
        target = self.editor.keep(answers.target)
        kinds = answers.kinds()
        places = range(kinds.shape[1])
        one_place = torch.eye(len(places), dtype=torch.bool, device=kinds.device)
        masks: dict[int | None, Tensor] = {None: kinds == 0}
        masks |= {place: one_place[place].expand_as(kinds) for place in places}
        found = []
        for layer in self.layers:
            x = source[self.site, layer]
            heads = self.editor.heads[layer - 1] if self.site == "context" else 1
            for number in range(heads):
                head = number + 1 if self.site == "context" else None
                new = x.unflatten(-1, (heads, -1))[:, :, number]
                edits = [[Edit(self.site, layer, replaced(new, mask), head)] for mask in masks.values()]
                for (place, mask), logits in zip(masks.items(), self._run(target, edits), strict=True):
                    found.append(_moved(answers, logits, mask.any(-1), (layer, head, place)))
        return found

    def _run(self, target: Kept, edits: Sequence[Sequence[Edit]]) -> list[Tensor]:
        room = ROOM.get(self.editor.module.device.type, ROOM["cuda"])
        beside = max(1, room // target.batch.real.numel())
        answers: list[Any] = []
        for begin in range(0, len(edits), beside):
            answers += self.editor.rerun(target, edits[begin : begin + beside])
        return answers


def _moved(
    answers: Answered,
    logits: Float[Tensor, "n c"],
    there: Bool[Tensor, " n"],
    where: tuple[int, int | None, int | None],
) -> Moved:
    source, target = (answers.margins(x) for x in answers.answers)
    moved = (answers.margins(logits) - target) / (source - target)
    flipped = (logits.argmax(-1) == answers.classes[0]).double()
    probability = logits.double().softmax(-1).gather(-1, answers.classes[0][:, None])[:, 0]
    return Moved(*where, *(x.where(there, torch.nan).cpu() for x in (flipped, moved, probability)))
