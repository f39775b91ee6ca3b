"""Transformed vectors f(x) = (x W_V + b_V) W_O of a head, and the norms of their weighted sums (Kobayashi et al. 2020).

No vector f is stored for pairs of tokens: ‖α f‖ is α ‖f‖, and ‖Σ_h α_h f_h‖² is αᵀ G α with G the Gram matrix of the heads' f.
"""

from jaxtyping import Float
from torch import Tensor

from conoscope.capture import fused, fused_vectors
from conoscope.capture.draws import drawn_keys
from conoscope.capture.trace import Trace
from conoscope.sums.numeric import at_least_single


def values_of(trace: Trace) -> Float[Tensor, "b t h e"] | None:
    """The values by token and query head, repeated if several query heads share one (grouped queries)."""
    if trace.value is None or trace.projection is None:
        return None
    return _by_query_head(at_least_single(trace.value).transpose(1, 2), len(trace.projection.weight))


def _by_query_head(value: Float[Tensor, "*n g e"], heads: int) -> Float[Tensor, "*n h e"]:
    return value if value.shape[-2] == heads else value.repeat_interleave(heads // value.shape[-2], dim=-2)


def transformed_norms(trace: Trace) -> Float[Tensor, "b h t"] | None:
    """‖f_h(x_j)‖ of every token and head, cached; None if the model's W_O was not found."""
    if trace.value is None or trace.projection is None:
        return None
    raw, gram = trace.value, trace.projection.gram

    def compute() -> Tensor:
        if fused.runs_on(raw.device, raw.dtype) and raw.shape[-1] <= fused_vectors.WIDEST:
            return fused_vectors.transformed_norms(raw, gram)
        value = values_of(trace)
        assert value is not None
        by_head = value.permute(2, 0, 1, 3).flatten(1, 2)
        squares = (by_head @ gram.to(by_head.dtype)).mul_(by_head).sum(-1)
        norms: Tensor = squares.clamp_min_(0).sqrt_().unflatten(1, value.shape[:2])
        return norms.transpose(0, 1)

    norms: Tensor = trace.memo("transformed norms", compute)
    return norms


def transformed(value: Float[Tensor, "n h e"], trace: Trace) -> Float[Tensor, "n h d"]:
    """f_h of tokens, from their values."""
    assert trace.projection is not None
    return (value.transpose(0, 1) @ trace.projection.single.to(value.dtype)).transpose(0, 1)


def drawn_vectors(trace: Trace) -> Float[Tensor, "b k h d"] | None:
    """f_h of the tokens that `drawn_keys` returns, cached; None if the model's W_O was not found."""
    if trace.value is None or trace.projection is None:
        return None
    value, heads = trace.value, len(trace.projection.weight)

    def compute() -> Tensor:
        at = drawn_keys(trace.batch)
        each = trace.batch.numbers[:, None]
        f = transformed(_by_query_head(at_least_single(value.transpose(1, 2)[each, at]).flatten(0, 1), heads), trace)
        # A CPU's matrix product would copy it each time.
        by_key: Tensor = (f.contiguous() if f.device.type == "cpu" else f).unflatten(0, at.shape)
        return by_key

    vectors: Tensor = trace.memo("drawn vectors", compute)
    return vectors


def drawn_grams(trace: Trace) -> Float[Tensor, "b k h h"] | None:
    """The Gram matrix of the heads' f of each token that `drawn_keys` returns; None if the model's W_O was not found."""
    if multiplies(trace):
        assert trace.value is not None
        assert trace.projection is not None
        return fused_vectors.head_grams(trace.value, drawn_keys(trace.batch), trace.projection.products)
    f = drawn_vectors(trace)
    if f is None:
        return None
    gram: Tensor = f @ f.mT
    return gram


def multiplies(trace: Trace) -> bool:
    """Whether kernels multiply values with W_O, so that no f of a head is in memory."""
    if trace.value is None or trace.projection is None or not fused.runs_on(trace.value.device, trace.value.dtype):
        return False
    heads, width = trace.projection.weight.shape[:2]
    return width <= fused_vectors.WIDEST and heads * width <= fused_vectors.WHOLE


def summed_norms(weights: Float[Tensor, "n h i"], f: Float[Tensor, "n h d"]) -> Float[Tensor, "n i"]:
    """‖Σ_h α_h f_h‖ of n keys for each of i queries, by the Gram matrix of the heads' f of each key."""
    return norms_by_gram(weights, f @ f.mT)


def norms_by_gram(weights: Float[Tensor, "n h i"], gram: Float[Tensor, "n h h"]) -> Float[Tensor, "n i"]:
    """‖Σ_h α_h f_h‖ of n keys for each of i queries."""
    return ((gram @ weights) * weights).sum(1).clamp_min(0).sqrt()
