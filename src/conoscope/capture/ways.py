"""Ways to attention: how a layer's weights are computed and reduced, chosen in this one place.

| way | what runs | for |
|---|---|---|
| `fused` | the model's SDPA, and kernels that reduce softmax(scale · q kᵀ + mask) as they go; no weights in memory | a GPU |
| `softmax` | our own softmax(scale · q kᵀ + mask), in chunks | a CPU; a GPU where the kernels do not run |
| `own` | the model's own eager attention: whole weights, or pieces if they are too many | all other models |

Attention is *plain* if a model's own eager function equals softmax(scale · q kᵀ + mask) on random tokens, with a mask that does
nothing but hide keys. A bias, a cap on scores, sinks are beyond that. In half precision on a CPU a model's own attention runs,
too: its products are rounded otherwise than ours. How many weights are computed at once follows from the shape of a batch and the
device (`softmax.CHUNK`, `eager.PIECE`).
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Literal

import torch

from conoscope.capture import fused
from conoscope.capture.eager import EagerAttention
from conoscope.capture.masks import hides_alone
from conoscope.capture.softmax import PlainAttention

Way = Literal["fused", "softmax", "own"]
OURS: tuple[Way, ...] = ("fused", "softmax")
"""The ways that do not run a model's own attention."""
LARGE = 16
"""How many times as long queries are tried as well."""
SINGLE = (torch.float32, torch.float64)
MASK = "its mask does more than hide keys"

WHAT: dict[Way, str] = {
    "fused": "attention is reduced by GPU kernels, without weights in memory",
    "softmax": "attention is computed and reduced in chunks",
    "own": "the model's own attention runs",
}
Try = Callable[[], str | None]


@dataclass(frozen=True)
class Choice:
    """The chosen way, and the reason in words."""

    way: Way
    reason: str

    def __str__(self) -> str:
        return f"{WHAT[self.way]} ({self.reason})"


def choose(
    device: torch.device,
    dtype: torch.dtype,
    beyond: str,
    whole: bool = False,
    try_kernels: Try = lambda: None,
) -> Choice:
    """The way for a model on this device. `beyond`: what its attention does beyond plain attention, "" for nothing; `whole`:
    whole weights are asked for; `try_kernels`: runs the kernels once, and says why they do not run.
    """
    if whole:
        return Choice("own", "whole weights are asked for")
    if beyond:
        return Choice("own", beyond)
    if fused.runs_on(device, dtype):
        reason = try_kernels()
        return Choice("fused", "plain attention on a GPU") if reason is None else Choice("softmax", reason)
    if device.type == "cpu" and dtype not in SINGLE:
        return Choice("own", "half precision on a CPU")
    if device.type == "cpu":
        return Choice("softmax", "plain attention on a CPU")
    return Choice("softmax", fused.failure() or "no kernels for this device or precision")


def beyond_plain(eager: EagerAttention) -> str:
    """What a model's eager attention does beyond softmax(scale · q kᵀ + mask), with a mask that does nothing but hide keys; "" if
    its weights are that up to rounding.

    Compared in double precision: in that of a model, rounding would hide a small bias.
    """
    call, scale = eager.in_double(), eager.options.get("scaling")
    if eager.options.get("softcap") is not None:
        return "its scores have a cap"
    if not hides_alone(call.mask):
        return MASK
    alike = call.key.shape[2] == call.query.shape[2] and call.query.shape[1] % call.key.shape[1] == 0
    # A cap on scores shows where they are large.
    if not (isinstance(scale, float | int) and alike) or not all(
        _is_softmax(replace(call, query=call.query * factor), float(scale)) for factor in (1, LARGE)
    ):
        return "its weights are not softmax(scale · q kᵀ + mask), as with a bias, a cap or sinks"
    return ""


def _is_softmax(call: EagerAttention, scale: float) -> bool:
    try:
        _, weights = call()
    except (RuntimeError, TypeError):  # a model's own code may insist on its precision
        return False
    seen = None if call.mask is None else call.mask == 0
    every = torch.arange(len(call.query), device=call.query.device)
    ours = PlainAttention(call.query, call.key, call.value, seen, False, scale).maps(every, call.query.shape[2])
    # A row that sees no key is padding. Some models round their scores to float32 in any precision (Llama, ModernBERT).
    padding = torch.zeros_like(ours[..., :1], dtype=torch.bool) if seen is None else ~seen.any(-1, keepdim=True)
    largest = call.query.norm(dim=-1).amax() * call.key.norm(dim=-1).amax() * scale
    # Relative to each weight: a small sink or bias moves small weights.
    single = torch.finfo(torch.float32)
    same = (weights - ours).abs() <= 16 * single.eps * largest.clamp_min(1) * ours + single.tiny
    return weights.shape == ours.shape and bool((same | padding).all())
