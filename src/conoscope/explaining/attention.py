"""Maps from single layers: attention weights, their column sums, and the norms of weighted values."""

import torch
from jaxtyping import Float
from torch import Tensor

from conoscope.explaining.base import ForwardPass, explains, layer_of


@explains("Fosse et al. 2023", "weights", layer=("last", "N"))
def attention(forward: ForwardPass, layer: str) -> Float[Tensor, "b t"]:
    """Attention that the classifying token pays to each token, mean over heads: α_cls,j."""
    return forward.read(layer_of(forward.layers("weights"), layer))


@explains("Fosse et al. 2023, older scripts", "weights", layer=("all", "N"))
def columns(forward: ForwardPass, layer: str) -> Float[Tensor, "b t"]:
    """Attention that each token gets from all real ones: Σ_i α_ij, summed over the layers."""
    matrices = forward.layers("weights")
    chosen = matrices if layer == "all" else [layer_of(matrices, layer)]
    real = forward.batch.real[:, None].to(chosen[0].dtype)
    return (real @ torch.stack(list(chosen)).sum(0))[:, 0]


@explains("Kobayashi et al. 2020", "norms", layer=("last", "N"))
def norms(forward: ForwardPass, layer: str) -> Float[Tensor, "b t"]:
    """Length of what the classifying token takes from each token: ‖Σ_h α_cls,j f_h(x_j)‖."""
    return forward.read(layer_of(forward.layers("norms"), layer))
