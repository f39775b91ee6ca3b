"""Rows of the study of the scale 1/√d: attention of random queries on random keys, and its gradients."""

from collections.abc import Iterator
from math import log

import torch
from jaxtyping import Float
from torch import Tensor

from conoscope.studies.base import Row
from conoscope.studies.published.course_scale import KEYS, QUERIES, SCALED, UNSCALED, WIDTHS


def entropy(p: Float[Tensor, "*s n"]) -> Float[Tensor, "*s"]:
    """-Σ p log p / log n."""
    found: Tensor = torch.special.entr(p).sum(-1)
    return found / log(p.shape[-1])


def slope(p: Float[Tensor, "*s n"]) -> Float[Tensor, "*s"]:
    """The Frobenius norm of the derivative of p = softmax(s) by s, diag(p) - p pᵀ: √(Σp² - 2 Σp³ + (Σp²)²)."""
    squares: Tensor = p.square().sum(-1)
    return (squares - 2 * p.pow(3).sum(-1) + squares.square()).clamp_min(0).sqrt()


def slope_by_query(p: Float[Tensor, "*s n"], keys: Float[Tensor, "n d"], scale: float) -> Float[Tensor, "*s"]:
    """The Frobenius norm of the derivative of p = softmax(c K q) by q, c (diag(p) - p pᵀ) K: row i is c p_i (k_i - Σ p k).

    ‖k_i - m‖² with m = Σ p k is ‖k_i‖² - 2 k_i · m + ‖m‖².
    """
    mean = p @ keys
    apart = keys.square().sum(-1) - 2 * mean @ keys.T + mean.square().sum(-1, keepdim=True)
    found: Tensor = (p.square() * apart.clamp_min(0)).sum(-1).sqrt()
    return scale * found


def read(seed: int) -> Iterator[Row]:
    """Of random queries and keys at each width, with and without the scale: variance of the scores, entropy, gradients."""
    draws = torch.Generator().manual_seed(seed)
    for width in WIDTHS:
        queries, keys = (torch.randn(count, width, generator=draws, dtype=torch.float64) for count in (QUERIES, KEYS))
        for name, scale in ((SCALED, width**-0.5), (UNSCALED, 1.0)):
            scores = scale * queries @ keys.T
            p = scores.softmax(-1)
            found = {
                "variance": scores.var(),
                "entropy": entropy(p).mean(),
                "gradient": slope(p).mean(),
                "gradient.query": slope_by_query(p, keys, scale).mean(),
            }
            yield from (
                {"quantity": quantity, "width": width, "scale": name, "value": float(value)} for quantity, value in found.items()
            )
