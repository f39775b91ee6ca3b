"""Head weights: the linear maps of a model's layers by head, read from its Jacobians, so they need no list of architectures.

Queries, keys and values of the first token are x W + b, where x is the input of the projections: rotary positions rotate nothing
at the first token, and a fused projection, GPT-2's transposed one and grouped queries need no special case. The Jacobian is W.
Anything else (a query that is normalised) has a second derivative, depends on other tokens, or fails to predict the queries of
another text; it is left out. W_O is read from the module that the wiring found.
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
from conoscope.capture.recorder import DRAWS, Capture
from conoscope.capture.trace import HeadWeights
from conoscope.capture.trial_batches import bare_batch, known_tokens
from conoscope.capture.wiring import Wiring
from conoscope.common.errors import OverflowedError

ROWS, TOKENS = 2, 3
CHUNK = 256
"""How many rows of a Jacobian are computed at once; this bounds the memory."""


def head_weights_of(module: PreTrainedModel) -> Iterator[HeadWeights]:
    """Each layer's head weights, in float64; the model is not changed."""
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
    """The call log of a forward pass over a few random tokens, with its autograd graph, and the wiring."""
    log = Log()
    with Capture(module, "kv") as capture:
        batch = _sound_tokens(module, capture)
        assert capture.wiring is not None
        with capture.recording(log, batch), graph_of(module), logged(module, log):
            outputs_of(module, batch)
    return log, capture.wiring


def _sound_tokens(module: PreTrainedModel, capture: Capture) -> Batch:
    """The first batch of random tokens without NaN or infinity."""
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
    """Random tokens, all different, so that no two texts have the same first token."""
    known = known_tokens(module)
    order = torch.randperm(len(known), generator=torch.Generator().manual_seed(seed))
    ids = known[order[torch.arange(ROWS * TOKENS) % len(known)]].view(ROWS, TOKENS)
    return bare_batch(module, ids, torch.ones_like(ids, dtype=torch.bool))


@torch.inference_mode(False)
@torch.enable_grad()
def linear_map(x: Float[Tensor, "*tokens d"], y: Float[Tensor, "b h t e"]) -> Float[Tensor, "h d e"] | None:
    """W of y = x W + b by head, from the first token of the first text; None if y is not such a function of x."""
    first, other, tokens = y[0, :, 0].flatten(), y[1, :, 0].flatten(), x.flatten(0, -2)
    if not (x.requires_grad and y.requires_grad and _is_linear(first, x)):
        return None
    weight = _jacobian(first, x).double()
    gap = other.double() - first.double() - weight @ (tokens[TOKENS] - tokens[0]).double()
    same = gap.norm() <= _rounding(y.dtype) * (first.double().norm() + other.double().norm())
    return weight.unflatten(0, (y.shape[1], -1)).mT if bool(same & weight.isfinite().all()) else None


def _rounding(dtype: torch.dtype) -> float:
    """Relative tolerance for rounding: √eps, at least that of float32, since a model in float64 may still rotate its queries in
    float32 (ModernBERT)."""
    return float(max(torch.finfo(dtype).eps, torch.finfo(torch.float32).eps) ** 0.5)


def _is_linear(y: Float[Tensor, " k"], x: Float[Tensor, "*tokens d"]) -> bool:
    """Whether y depends on the first token of x only, and its derivative does not depend on x."""
    slope = torch.autograd.grad(y.sum(), x, create_graph=True, allow_unused=True)[0]
    if slope is None or bool(slope.flatten(0, -2)[1:].any()):
        return False
    second = torch.autograd.grad(slope.sum(), x, retain_graph=True, allow_unused=True)[0] if slope.requires_grad else None
    return second is None or not bool(second.any())


def _jacobian(y: Float[Tensor, " k"], x: Float[Tensor, "*tokens d"]) -> Float[Tensor, "k d"]:
    """The derivative of y with respect to the first token of x."""
    chunks = torch.eye(len(y), dtype=y.dtype, device=y.device).split(CHUNK)
    slopes = (torch.autograd.grad(y, x, chunk, retain_graph=True, is_grads_batched=True)[0] for chunk in chunks)
    return torch.cat([slope.flatten(1, -2)[:, 0] for slope in slopes])


def _bias(x: Float[Tensor, "*tokens d"], y: Float[Tensor, "b h t e"], weight: Float[Tensor, "h d e"]) -> Float[Tensor, "h e"]:
    """b of y = x W + b, from the first token."""
    return y[0, :, 0].detach().double() - x.detach().flatten(0, -2)[0].double() @ weight


def _output(call: Call | None, wiring: Wiring) -> dict[str, Tensor | None]:
    """W_O and its bias; None for W_O if it was not found or is not finite."""
    projection = None if call is None else wiring.projected[call]
    if projection is None or not bool(projection.weight.isfinite().all()):
        return {"output": None}
    bias = None if projection.bias is None else projection.bias.double()
    return {"output": projection.weight.double(), "output_bias": bias}
