"""Turning: vectors are turned by an angle towards others, or lengthened by as much."""

import math

import torch
from jaxtyping import Float
from torch import Tensor

ROUNDING = 1e-6
"""A vector of which less than this share is left across another has no direction to turn it in."""


def across(x: Float[Tensor, "b d"], towards: Float[Tensor, "b d"]) -> Float[Tensor, "b d"]:
    """The unit vector at right angles to x in the plane of x and another vector; NaN where they span no plane."""
    length = torch.linalg.vector_norm(x, dim=-1, keepdim=True)
    along = x / length
    rest = towards - (towards * along).sum(-1, keepdim=True) * along
    rest = rest - (rest * along).sum(-1, keepdim=True) * along  # again: the first time leaves rounding
    left = torch.linalg.vector_norm(rest, dim=-1, keepdim=True)
    spans = (left > ROUNDING * torch.linalg.vector_norm(towards, dim=-1, keepdim=True)) & (length > 0)
    side: Tensor = (rest / left).where(spans, torch.nan)
    return side


def turned(x: Float[Tensor, "b d"], side: Float[Tensor, "b d"], angle: Float[Tensor, " b"]) -> Float[Tensor, "b d"]:
    """x turned by an angle (radians) towards a unit vector at right angles to it: cos θ x + sin θ ‖x‖ side.

    Its length stays; where there is no such vector x stays.
    """
    angle = angle[:, None]
    moved: Tensor = angle.cos() * x + angle.sin() * torch.linalg.vector_norm(x, dim=-1, keepdim=True) * side
    return torch.where(side.isnan(), x, moved)


def lengthened(x: Float[Tensor, "b d"], angle: Float[Tensor, " b"]) -> Float[Tensor, "b d"]:
    """x lengthened by what turning it by an angle moves it: ‖x‖ 2 sin(θ/2)."""
    return x * (1 + 2 * (angle[:, None] / 2).sin())


def angle_between(x: Float[Tensor, "b d"], y: Float[Tensor, "b d"]) -> Float[Tensor, " b"]:
    """The angle between vectors in radians, exact for small ones too."""
    a, b = (v / torch.linalg.vector_norm(v, dim=-1, keepdim=True) for v in (x, y))
    return 2 * torch.atan2(torch.linalg.vector_norm(a - b, dim=-1), torch.linalg.vector_norm(a + b, dim=-1))


def degrees(angle: Tensor) -> Tensor:
    """Radians as degrees."""
    return angle * (180 / math.pi)
