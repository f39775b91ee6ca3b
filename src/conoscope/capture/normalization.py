"""Residual and norm of a layer: what is added to its attention output, and how the sum is normalised, found from tensors."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import torch
from jaxtyping import Float
from torch import Tensor

from conoscope.capture.calls import Call, Event, is_sum

Residual = Literal["before", "input"]
"""What is added to the attention output: the output of the layer before, or the input of the projections."""


@dataclass(frozen=True)
class Norm:
    """LayerNorm or RMSNorm: y = g(x) / s + β, with s one number a vector and g linear: (x - mean x) γ, or x γ."""

    gain: Float[Tensor, " d"] | None
    centred: bool

    def linear(self, x: Float[Tensor, "*s d"]) -> Float[Tensor, "*s d"]:
        """g(x): up to the factor 1 / s, what a part of a vector adds to the normalised vector."""
        x = x - x.mean(-1, keepdim=True) if self.centred else x
        return x if self.gain is None else x * self.gain.to(x.dtype)


def find_residual(
    segment: Sequence[Event], projection: Call | None, read: Mapping[Residual, Tensor | None], after: Tensor
) -> tuple[Residual | None, Norm | None]:
    """The name of the tensor in `read` that is added to W_O's output, and the norm that reads the sum."""
    calls = [event.call for event in segment]
    if projection is None:
        return None, None
    start = calls.index(projection)
    output = segment[start].returned
    residual = None
    for name, added in read.items():
        if added is None or output is None or added.numel() != output.numel():
            continue
        for event in segment[start + 1 :]:
            if event.given is not None and event.given.numel() == output.numel() and is_sum(event.given, output, added):
                residual = name
                if norm := _norm_of(event):
                    return name, norm
        if residual is not None or is_sum(after, output, added):
            return name, None
    return None, None


def _norm_of(event: Event) -> Norm | None:
    """The norm that a module applies, found from its output g(x) / s + β; None if it does not normalise."""
    module = event.call[0] if event.call is not None else None
    if module is None or event.given is None or event.returned is None or event.returned.shape != event.given.shape:
        return None
    weight, bias = (getattr(module, name, None) for name in ("weight", "bias"))
    gains = [None] if weight is None else [weight.detach(), 1 + weight.detach()]
    if any(parameter is not None and parameter.shape != event.given.shape[-1:] for parameter in (weight, bias)):
        return None
    returned = event.returned if bias is None else event.returned - bias.detach()
    return next((n for gain in gains for c in (True, False) if _normalises(n := Norm(gain, c), event.given, returned)), None)


def _normalises(norm: Norm, given: Tensor, returned: Tensor) -> bool:
    """Whether each returned vector is the linear part of the norm times its own factor."""
    one, other = (x.double().flatten(0, -2) for x in (norm.linear(given), returned))
    factor = (one * other).sum(-1, keepdim=True) / one.square().sum(-1, keepdim=True)
    # A model in float64 may still normalise in float32 (Llama, DeBERTa).
    rounding = min(64 * max(torch.finfo(given.dtype).eps, torch.finfo(torch.float32).eps), 0.02)
    # A module that changes nothing, such as dropout, is not a norm.
    same = norm.gain is None and bool((factor - 1).abs().max() <= rounding)
    return not same and bool(((one * factor - other).norm(dim=-1) <= rounding * other.norm(dim=-1)).all())
