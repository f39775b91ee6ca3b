"""Matrices: for each query and key of a layer one number, never a vector, from what the layer left."""

from collections.abc import Callable

import torch
from jaxtyping import Float
from torch import Tensor

from conoscope.errors import CaptureError
from conoscope.statistics import at_least_single
from conoscope.traces import Trace


def head_mean(trace: Trace) -> Float[Tensor, "b t t"]:
    """The attention weights, mean over heads."""
    assert trace.weights is not None
    return at_least_single(trace.weights).mean(1)


def mixed_norms(trace: Trace) -> Float[Tensor, "b t t"]:
    """‖Σ_h α_ij f_h(x_j)‖, the length of what query i takes from key j (Kobayashi et al. 2020)."""
    assert trace.weights is not None
    return summed_norms(at_least_single(trace.weights), transformed(trace))


def transformed(trace: Trace) -> Float[Tensor, "b t h d"]:
    """f_h(x_j) = (x_j W_V + b_V) W_O by head; W_O's bias belongs to no token."""
    if trace.value is None or trace.projection is None:
        raise CaptureError(f"what follows the values of layer {trace.layer} cannot be followed; leave maps of norms out")
    weight = at_least_single(trace.projection.weight)
    value = trace.value.repeat_interleave(len(weight) // trace.value.shape[1], dim=1)
    return torch.einsum("bhte,hed->bthd", value.to(weight.dtype), weight)


def summed_norms(weights: Float[Tensor, "b h t t"], f: Float[Tensor, "b t h d"]) -> Float[Tensor, "b t t"]:
    """‖Σ_h α_ij f_h(x_j)‖ = √(α_ijᵀ G_j α_ij), with G_j the products of token j's vectors in every two heads."""
    gram = f @ f.mT
    by_key = weights.permute(0, 3, 2, 1)  # (b, j, i, h)
    return ((by_key @ gram) * by_key).sum(-1).clamp_min(0).sqrt().mT


KINDS: dict[str, Callable[[Trace], Float[Tensor, "b t t"]]] = {"weights": head_mean, "norms": mixed_norms}
