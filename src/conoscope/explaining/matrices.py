"""Matrices: one number (never a vector) for each query and key of a layer, computed from its trace."""

from collections.abc import Callable

import torch
from jaxtyping import Float
from torch import Tensor

from conoscope.capture.trace import Trace
from conoscope.common.errors import CaptureError
from conoscope.quantities.transformed import summed_norms, transformed, values_of
from conoscope.sums.numeric import at_least_single

Matrix = Float[Tensor, "b t t"]


def head_mean(trace: Trace) -> Matrix:
    """The attention weights, mean over heads."""
    return _weights(trace).mean(1)


def mixed_norms(trace: Trace) -> Matrix:
    """‖Σ_h α_ij f_h(x_j)‖, the length of what query i takes from key j (Kobayashi et al. 2020)."""
    return _summed(_weights(trace), _by_head(trace))


def normed_norms(trace: Trace) -> Matrix:
    """‖g(Σ_h α_ij f_h(x_j) + δ_ij x_i)‖, with the residual x and g the linear part of the following norm (Kobayashi et al. 2021).

    The norm's scale is the same for a whole row and cancels, since rows are read as shares.
    """
    weights, f, x = _weights(trace), _by_head(trace), trace.residual
    if x is None:
        raise CaptureError(f"what is added to the attention of layer {trace.layer} cannot be followed; leave rollout_mixing out")
    g = trace.norm.linear if trace.norm is not None else torch.Tensor.clone
    kept = torch.einsum("bhi,bihd->bid", weights.diagonal(dim1=-2, dim2=-1), f) + x.to(f.dtype)
    norms = _summed(weights, g(f))
    norms.diagonal(dim1=-2, dim2=-1).copy_(g(kept).norm(dim=-1))
    return norms


def _weights(trace: Trace) -> Float[Tensor, "b h t t"]:
    assert trace.weights is not None
    return at_least_single(trace.weights)


def _by_head(trace: Trace) -> Float[Tensor, "b t h d"]:
    """f_h(x_j) = (x_j W_V + b_V) W_O; the bias of W_O belongs to no token."""
    value = values_of(trace)
    if value is None:
        raise CaptureError(f"what follows the values of layer {trace.layer} cannot be followed; leave maps of norms out")
    found: Tensor = transformed(value.flatten(0, 1), trace).unflatten(0, value.shape[:2])
    return found


def _summed(weights: Float[Tensor, "b h t t"], f: Float[Tensor, "b t h d"]) -> Matrix:
    """‖Σ_h α_ij f_h(x_j)‖ of every query and key."""
    by_key = weights.permute(0, 3, 1, 2)  # (b, j, h, i)
    found: Tensor = summed_norms(by_key.flatten(0, 1), f.flatten(0, 1)).unflatten(0, f.shape[:2])
    return found.mT


KINDS: dict[str, Callable[[Trace], Matrix]] = {"weights": head_mean, "norms": mixed_norms, "mixing": normed_norms}
