"""Rollouts: products of the layers' matrices, from the token that the classifier reads down to the input words."""

from collections.abc import Iterable, Sequence

import torch
from jaxtyping import Float
from torch import Tensor

from conoscope.explaining.base import ForwardPass, explains


@explains("Abnar and Zuidema 2020", "weights")
def rollout(forward: ForwardPass) -> Float[Tensor, "b t"]:
    """Product of the layers' ½ α + ½ I, in the row of the classifying token."""
    return _from_reader(forward, map(with_residual, forward.layers("weights")))


@explains("Fosse et al. 2023, reference code", "weights")
def rollout_legacy(forward: ForwardPass) -> Float[Tensor, "b t"]:
    """Product of the layers' α without residual, mean over the rows of all real tokens."""
    real = forward.batch.real.to(forward.layers("weights")[0].dtype)
    start = real / real.sum(-1, keepdim=True)
    return rolled(start[:, None], forward.layers("weights"))[:, 0]


@explains("after Abnar and Zuidema 2020 and Kobayashi et al. 2020", "norms")
def rollout_norms(forward: ForwardPass) -> Float[Tensor, "b t"]:
    """Product of the layers' ½ N + ½ I, with N the rows of ‖Σ_h α_ij f_h(x_j)‖ as shares."""
    return _from_reader(forward, (with_residual(shares(norms)) for norms in forward.layers("norms")))


@explains("after Abnar and Zuidema 2020 and Kobayashi et al. 2021", "mixing")
def rollout_mixing(forward: ForwardPass) -> Float[Tensor, "b t"]:
    """Product of the layers' ‖g(Σ_h α_ij f_h(x_j) + δ_ij x_i)‖ as shares: residual and norm as the model has them."""
    return _from_reader(forward, map(shares, forward.layers("mixing")))


def shares(matrix: Float[Tensor, "b t t"]) -> Float[Tensor, "b t t"]:
    """Each row divided by its sum; a row of zeros stays zeros."""
    sums = matrix.sum(-1, keepdim=True)
    return torch.where(sums > 0, matrix / sums, 0.0)


def with_residual(matrix: Float[Tensor, "b t t"]) -> Float[Tensor, "b t t"]:
    """½ A + ½ I, its rows summing to 1."""
    return shares(matrix + torch.eye(matrix.shape[-1], dtype=matrix.dtype, device=matrix.device))


def rolled(start: Float[Tensor, "b i t"], layers: Sequence[Float[Tensor, "b t t"]]) -> Float[Tensor, "b i t"]:
    """start A_L … A_1; with the identity as `start`, the whole rollout R."""
    for matrix in reversed(layers):
        start = start @ matrix
    return start


def _from_reader(forward: ForwardPass, layers: Iterable[Float[Tensor, "b t t"]]) -> Float[Tensor, "b t"]:
    matrices = list(layers)
    assert forward.readers is not None
    return rolled(forward.readers.to(matrices[0].dtype)[:, None], matrices)[:, 0]
