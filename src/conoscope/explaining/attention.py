"""Maps of one layer: the weights, their columns, and the lengths of what is mixed."""

import torch
from jaxtyping import Float
from torch import Tensor

from conoscope.explaining.base import ForwardPass, explains, layer_of


@explains("Fosse et al. 2023", "weights", layer=("last", "N"))
def attention(passed: ForwardPass, layer: str) -> Float[Tensor, "b t"]:
    """Attention that the classifying token pays to each token, mean over heads: α_cls,j."""
    return passed.read(layer_of(passed.layers("weights"), layer))


@explains("Fosse et al. 2023, older scripts", "weights", layer=("all", "N"))
def columns(passed: ForwardPass, layer: str) -> Float[Tensor, "b t"]:
    """Attention that each token gets from all real ones: Σ_i α_ij, summed over the layers."""
    matrices = passed.layers("weights")
    chosen = matrices if layer == "all" else [layer_of(matrices, layer)]
    real = passed.batch.real[:, None].to(chosen[0].dtype)
    return (real @ torch.stack(list(chosen)).sum(0))[:, 0]


@explains("Kobayashi et al. 2020", "norms", layer=("last", "N"))
def norms(passed: ForwardPass, layer: str) -> Float[Tensor, "b t"]:
    """Length of what the classifying token takes from each token: ‖Σ_h α_cls,j f_h(x_j)‖."""
    return passed.read(layer_of(passed.layers("norms"), layer))
