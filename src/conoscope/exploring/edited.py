"""Edited: what edits make of a text, and of the vectors of a pass."""

from collections.abc import Mapping
from itertools import chain

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from conoscope.capture.batch import Batch
from conoscope.causes.directions import read_at
from conoscope.causes.editor import Editor
from conoscope.causes.edits import Change, Edit, averaged, zeroed
from conoscope.causes.turning import across, turned
from conoscope.corpora import Example
from conoscope.explaining.erasing import without
from conoscope.exploring.inputs import Input, Steer
from conoscope.exploring.requests import RequestError

ID = "texts:1"
"""The id that a text alone has elsewhere, by which the random map is drawn."""
Directions = Mapping[int, Float[Tensor, "c d"]]
"""The direction of each class by hidden layer, unit vectors; NaN for a class without one."""


def edited_text(given: Input) -> tuple[Example, tuple[int, ...]]:
    """The text without its erased words and with its replaced ones, and for each of its words the number that it had before.

    A text without such edits stays as it is, with its white space.
    """
    erased, replaced = set(given.edits.erase), dict(given.edits.replace)
    whole = Example(given.text, pair=given.pair, id=ID)
    if not erased and not replaced:
        return whole, tuple(range(len(given.words)))
    parts = [replaced[number].split() if number in replaced else [word] for number, word in enumerate(given.words)]
    first = len(given.text.split())
    text, pair = (" ".join(chain.from_iterable(some)) for some in (parts[:first], parts[first:]))
    numbers = [number for number, part in enumerate(parts) for _ in part]
    gone = np.array([number in erased for number in numbers], dtype=bool)
    example = without(Example(text, pair=None if given.pair is None else pair, id=ID), gone, None)
    return example, tuple(number for number in numbers if number not in erased)


def shown_words(given: Input) -> list[str]:
    """The words, those that are replaced as they are now; erased ones keep their places."""
    replaced = dict(given.edits.replace)
    return [replaced.get(number, word) for number, word in enumerate(given.words)]


def vector_edits(editor: Editor, batch: Batch, given: Input, directions: Directions | None) -> list[Edit]:
    """The edits of vectors that an input asks for, in a pass over this batch."""
    change = zeroed(batch.real) if given.edits.how == "zero" else averaged(batch.real)
    edits = [Edit("context", layer, change, head) for layer, head in given.edits.ablate]
    if given.edits.steer is not None:
        edits.append(_steered(editor, batch, given.edits.steer, directions))
    editor.check(edits)
    return edits


def _steered(editor: Editor, batch: Batch, steer: Steer, directions: Directions | None) -> Edit:
    if directions is None:
        raise RequestError("no open result has directions of classes for this model; open one that measured class_cones")
    layers = len(editor.heads)
    if steer.layer not in directions:
        raise RequestError(f"no directions of classes are known in layer {steer.layer} of {layers}; steer in another layer")
    of_classes = directions[steer.layer]
    if steer.to >= len(of_classes) or bool(of_classes[steer.to].isnan().any()):
        raise RequestError(f"no direction is known of class {steer.to} in layer {steer.layer}; steer to another")
    if bool((batch.cls < 0).any()) or not batch.reads:
        raise RequestError(
            f"{type(editor.module).__name__} reads the class at several tokens; what is read cannot be turned at one"
        )
    return Edit("hidden", steer.layer, turned_to(batch, of_classes[steer.to], steer.angle))


def turned_to(batch: Batch, towards: Float[Tensor, " d"], angle: float) -> Change:
    """The vector that is classified from is turned by an angle in degrees towards a direction; its length stays."""

    def change(x: Tensor) -> Tensor:
        if x.shape[-1] != len(towards):
            raise RequestError(
                f"the result's directions are {len(towards)} numbers long, and hidden states {x.shape[-1]}; open its model"
            )
        old = read_at(x, batch).double()
        side = across(old, towards.to(old).expand_as(old))
        new = x.clone()
        new[batch.numbers, batch.cls.to(x.device)] = turned(old, side, torch.full_like(old[:, 0], np.deg2rad(angle))).to(x)
        return new

    return change
