"""Maps: the linear maps of a model's layers by head, read off its Jacobians, so that no architecture need be known.

Queries, keys and values of the first token are x W + b, with x what the projections read: rotary positions turn nothing
there, and a fused projection, GPT-2's transposed one and grouped queries are all alike. The derivative is W. What is no
such map (a query that is normalised) has a second derivative, reads other tokens, or misses the queries of another text: it
is left out. W_O is read from the module that the wiring found.
"""

from collections.abc import Iterator

import torch
from jaxtyping import Float
from torch import Tensor
from transformers import PreTrainedModel

from conoscope.capture.batch import Batch
from conoscope.capture.calls import Call, Log, logged
from conoscope.capture.class_token import graph_of
from conoscope.capture.forward import outputs_of
from conoscope.capture.recorder import DRAWS, Capture, bare_batch, known_tokens
from conoscope.capture.trace import HeadWeights
from conoscope.capture.wiring import Wiring
from conoscope.common.errors import OverflowedError

ROWS, TOKENS = 2, 3
CHUNK = 256
"""How many rows of a Jacobian are computed at once: what bounds the memory."""


def head_weights_of(module: PreTrainedModel) -> Iterator[HeadWeights]:
    """Each layer's maps, in float64; the model is left as it was."""
    log, wiring = _logged_pass(module)
    given = {event.call: event.given for event in log.events if event.call is not None}
    for number, (attended, reads, after) in enumerate(zip(log.attentions, wiring.inputs, wiring.projections, strict=True), 1):
        x = None if reads is None else given[reads]
        sides = (attended.query, attended.key, attended.value)
        query, key, value = (None if x is None or y is None else linear_map(x, y) for y in sides)
        bias = None if value is None or x is None else _bias(x, attended.value, value)
        yield HeadWeights(number, query, key, value, value_bias=bias, **_output(after, wiring))


@torch.inference_mode(False)
def _logged_pass(module: PreTrainedModel) -> tuple[Log, Wiring]:
    """Every call of a pass over a few random tokens, with its graph, and the wiring."""
    log = Log()
    with Capture(module, "kv") as capture:
        batch = _sound_tokens(module, capture)
        assert capture.wiring is not None
        with capture.recording(log, batch), graph_of(module), logged(module, log):
            outputs_of(module, batch)
    return log, capture.wiring


def _sound_tokens(module: PreTrainedModel, capture: Capture) -> Batch:
    """The first few random tokens that leave neither NaN nor infinity."""
    for seed in range(DRAWS):
        batch = _few_tokens(module, seed).to(module.device)
        try:
            capture(batch, lambda trace: None)
            return batch
        except OverflowedError:
            if capture.wiring is None:
                break
    raise OverflowedError.of(type(module).__name__, "random tokens", module.dtype)


def _few_tokens(module: PreTrainedModel, seed: int) -> Batch:
    """Random tokens, all of them different, so that no two texts begin alike."""
    known = known_tokens(module)
    order = torch.randperm(len(known), generator=torch.Generator().manual_seed(seed))
    ids = known[order[torch.arange(ROWS * TOKENS) % len(known)]].view(ROWS, TOKENS)
    return bare_batch(module, ids, torch.ones_like(ids, dtype=torch.bool))


@torch.inference_mode(False)
@torch.enable_grad()
def linear_map(x: Float[Tensor, "*tokens d"], y: Float[Tensor, "b h t e"]) -> Float[Tensor, "h d e"] | None:
    """W of y = x W + b by head, from the first token of the first text; None where y is no such map of x."""
    first, other, tokens = y[0, :, 0].flatten(), y[1, :, 0].flatten(), x.flatten(0, -2)
    if not (x.requires_grad and y.requires_grad and _is_straight(first, x)):
        return None
    weight = _jacobian(first, x).double()
    gap = other.double() - first.double() - weight @ (tokens[TOKENS] - tokens[0]).double()
    same = gap.norm() <= _rounding(y.dtype) * (first.double().norm() + other.double().norm())
    return weight.unflatten(0, (y.shape[1], -1)).mT if bool(same & weight.isfinite().all()) else None


def _rounding(dtype: torch.dtype) -> float:
    """The share of a vector that may be rounding: √eps, and of single precision at least, since a model in float64 may still
    turn its queries in float32 (ModernBERT)."""
    return float(max(torch.finfo(dtype).eps, torch.finfo(torch.float32).eps) ** 0.5)


def _is_straight(y: Float[Tensor, " k"], x: Float[Tensor, "*tokens d"]) -> bool:
    """Whether y reads the first token of x and no other, and its derivative does not depend on x."""
    slope = torch.autograd.grad(y.sum(), x, create_graph=True, allow_unused=True)[0]
    if slope is None or bool(slope.flatten(0, -2)[1:].any()):
        return False
    bend = torch.autograd.grad(slope.sum(), x, retain_graph=True, allow_unused=True)[0] if slope.requires_grad else None
    return bend is None or not bool(bend.any())


def _jacobian(y: Float[Tensor, " k"], x: Float[Tensor, "*tokens d"]) -> Float[Tensor, "k d"]:
    """The derivative of y by the first token of x."""
    chosen = torch.eye(len(y), dtype=y.dtype, device=y.device).split(CHUNK)
    slopes = (torch.autograd.grad(y, x, some, retain_graph=True, is_grads_batched=True)[0] for some in chosen)
    return torch.cat([slope.flatten(1, -2)[:, 0] for slope in slopes])


def _bias(x: Float[Tensor, "*tokens d"], y: Float[Tensor, "b h t e"], weight: Float[Tensor, "h d e"]) -> Float[Tensor, "h e"]:
    """b of y = x W + b, from the first token."""
    return y[0, :, 0].detach().double() - x.detach().flatten(0, -2)[0].double() @ weight


def _output(call: Call | None, wiring: Wiring) -> dict[str, Tensor | None]:
    """W_O and its bias."""
    found = None if call is None else wiring.projected[call]
    if found is None or not bool(found.weight.isfinite().all()):
        return {"output": None}
    return {"output": found.weight.double(), "output_bias": None if found.bias is None else found.bias.double()}
