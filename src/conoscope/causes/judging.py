"""Judging: of which layers turning, or lengthening, is no test, since it is known before how the answer moves."""

from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

from conoscope.causes.directions import read_at
from conoscope.causes.editor import Editor
from conoscope.causes.edits import Edit, replaced
from conoscope.causes.passes import Kept

FAR = 100.0
NEAR = 0.05
"""Relative differences below this are none: a rule that holds leaves rounding, one that does not leaves a third or more."""


LONGEST, SAME = 3.0, 1e-3
"""A vector this many times as long has logits that differ by no more than this, relatively, if its length is normalised away."""


@dataclass(frozen=True)
class Rule:
    """What is known of a layer: whether logits are `linear` in the vector that is turned, which makes its direction the class by
    construction; and whether its length is `normalised` away."""

    linear: bool
    normalised: bool


def at_token(layer: int, new: Float[Tensor, "b d"], kept: Kept) -> Edit:
    """The edit that replaces the vectors that are classified from."""
    places = torch.arange(kept.batch.real.shape[1], device=kept.batch.real.device)
    return Edit("hidden", layer, replaced(new[:, None], places == kept.batch.cls[:, None]))


def rule_of(editor: Editor, kept: Kept, layer: int, towards: Float[Tensor, " d"]) -> Rule:
    """What holds for a layer, tried on some texts.

    Linear: a hundred times as long a step moves logits a hundred times as far, on both sides. Normalised: the vector has the same
    answer when it is as long as turning by 180 degrees would make it at the most.
    """
    x = read_at(kept.vectors["hidden", layer], kept.batch).double()
    step = towards * torch.linalg.vector_norm(x, dim=-1, keepdim=True)
    new = [x + step, x + FAR * step, x - FAR * step, LONGEST * x]
    near, far, back, long = (editor.rerun(kept, [[at_token(layer, each, kept)]])[0].double() for each in new)
    plain = kept.answer.double()
    slope = FAR * (near - plain)
    off = torch.stack((far - plain - slope, back - plain + slope)).abs().amax()
    linear = bool(off <= NEAR * slope.abs().amax()) and bool(slope.abs().amax() > 0)
    return Rule(linear, bool((long - plain).abs().amax() <= SAME * plain.abs().amax()))
