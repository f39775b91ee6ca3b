"""Rollouts: products of the layers' matrices, from the token that is classified from down to the words."""

from collections.abc import Iterable, Sequence

import torch
from jaxtyping import Float
from torch import Tensor

from conoscope.explaining.base import ForwardPass, explains


@explains("Abnar and Zuidema 2020", "weights")
def rollout(passed: ForwardPass) -> Float[Tensor, "b t"]:
    """Product of the layers' ½ α + ½ I, in the row of the classifying token."""
    return _from_reader(passed, map(with_residual, passed.layers("weights")))


@explains("Fosse et al. 2023, reference code", "weights")
def rollout_legacy(passed: ForwardPass) -> Float[Tensor, "b t"]:
    """Product of the layers' α without residual, mean over the rows of all real tokens."""
    real = passed.batch.real.to(passed.layers("weights")[0].dtype)
    start = real / real.sum(-1, keepdim=True)
    return rolled(start[:, None], passed.layers("weights"))[:, 0]


@explains("after Abnar and Zuidema 2020 and Kobayashi et al. 2020", "norms")
def rollout_norms(passed: ForwardPass) -> Float[Tensor, "b t"]:
    """Product of the layers' ½ N + ½ I, with N the rows of ‖Σ_h α_ij f_h(x_j)‖ as shares."""
    return _from_reader(passed, (with_residual(shares(norms)) for norms in passed.layers("norms")))


@explains("after Abnar and Zuidema 2020 and Kobayashi et al. 2021", "mixing")
def rollout_mixing(passed: ForwardPass) -> Float[Tensor, "b t"]:
    """Product of the layers' ‖g(Σ_h α_ij f_h(x_j) + δ_ij x_i)‖ as shares: residual and norm as the model has them."""
    return _from_reader(passed, map(shares, passed.layers("mixing")))


def shares(matrix: Float[Tensor, "b t t"]) -> Float[Tensor, "b t t"]:
    """Each row divided by its sum; a row of zeros stays one."""
    sums = matrix.sum(-1, keepdim=True)
    return torch.where(sums > 0, matrix / sums, 0.0)


def with_residual(matrix: Float[Tensor, "b t t"]) -> Float[Tensor, "b t t"]:
    """½ A + ½ I, its rows summing to 1."""
    return shares(matrix + torch.eye(matrix.shape[-1], dtype=matrix.dtype, device=matrix.device))


def rolled(start: Float[Tensor, "b i t"], layers: Sequence[Float[Tensor, "b t t"]]) -> Float[Tensor, "b i t"]:
    """start A_L … A_1; with the identity to start from, the whole rollout R."""
    for matrix in reversed(layers):
        start = start @ matrix
    return start


def _from_reader(passed: ForwardPass, layers: Iterable[Float[Tensor, "b t t"]]) -> Float[Tensor, "b t"]:
    matrices = list(layers)
    assert passed.readers is not None
    return rolled(passed.readers.to(matrices[0].dtype)[:, None], matrices)[:, 0]
