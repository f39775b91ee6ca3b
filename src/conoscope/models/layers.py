"""Modules of the family: attention, layer, pooling, positions, normalisation."""

import math
from collections.abc import Callable
from typing import Any

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn
from transformers import PreTrainedConfig
from transformers.modeling_layers import GradientCheckpointingLayer
from transformers.modeling_utils import ALL_ATTENTION_FUNCTIONS

from conoscope.common.errors import ModelError


def sinusoids(count: int, width: int, like: Tensor) -> Float[Tensor, "t d"]:
    """pe[i, h] = sin(i / 10000^(h/d)) for even h, cos(i / 10000^((h-1)/d)) for odd h."""
    even = torch.arange(0, width, 2, dtype=torch.float64, device=like.device)
    angles = torch.arange(count, dtype=torch.float64, device=like.device)[:, None] * 10000.0 ** (-even / width)
    table: Tensor = torch.stack((angles.sin(), angles.cos()), dim=-1).flatten(1)[:, :width]
    return table.to(like.dtype)


def standardize(x: Float[Tensor, "*shape d"]) -> Float[Tensor, "*shape d"]:
    """(x - mean) / sd over the coordinates, sd unbiased: every vector then has norm sqrt(d - 1)."""
    centred = x - x.mean(-1, keepdim=True)
    norm: Tensor = torch.linalg.vector_norm(centred, dim=-1, keepdim=True)
    return centred * (math.sqrt(x.shape[-1] - 1) / norm.clamp_min(1e-12))


class Standardize(nn.Module):
    """`standardize` as a module, so that capture can find it by its input and output."""

    def forward(self, x: Float[Tensor, "*shape d"]) -> Float[Tensor, "*shape d"]:
        """(x - mean) / sd."""
        return standardize(x)


def eager_attention_forward(
    module: nn.Module, query: Tensor, key: Tensor, value: Tensor, attention_mask: Tensor | None, **kwargs: Any
) -> tuple[Tensor, Tensor]:
    """Attention by its formula, softmax(Q Kᵀ / √e) V; transformers and conoscope's capture find it by this name."""
    scores = query @ key.transpose(-1, -2) * kwargs["scaling"]
    weights = (scores if attention_mask is None else scores + attention_mask).softmax(-1)
    return (weights @ value).transpose(1, 2).contiguous(), weights


class InProjection(nn.Linear):
    """Projection to queries, keys or values, initialised as in torch's MultiheadAttention: all three as one (3d, d) matrix."""


class SelfAttention(nn.Module):
    """Multi-head self-attention: queries, keys and values with bias, and an optional output projection with bias."""

    is_causal = False

    def __init__(self, config: PreTrainedConfig) -> None:
        super().__init__()
        width = config.hidden_size
        if width % config.num_attention_heads:
            raise ModelError(f"width {width} cannot be cut into {config.num_attention_heads} heads; give a multiple")
        self.config = config
        self.heads = config.num_attention_heads
        self.scaling = (width // self.heads) ** -0.5
        self.query, self.key, self.value = (InProjection(width, width) for _ in range(3))
        self.output = nn.Linear(width, width) if config.output_projection else nn.Identity()
        relative = config.positions == "relative"
        self.distance = nn.Embedding(2 * config.window + 1, width // self.heads) if relative else None

    def forward(self, x: Float[Tensor, "b t d"], mask: Tensor | None, **kwargs: Any) -> tuple[Tensor, Tensor | None]:
        """The attention output, and the weights if the backend returns them."""
        heads = (*x.shape[:2], self.heads, -1)
        query, key, value = (each(x).view(heads).transpose(1, 2) for each in (self.query, self.key, self.value))
        attend: Callable[..., tuple[Tensor, Tensor | None]] = ALL_ATTENTION_FUNCTIONS.get_interface(
            self.config._attn_implementation, eager_attention_forward
        )
        mask = mask if self.distance is None else self._with_distances(query, mask)
        context, weights = attend(self, query, key, value, mask, scaling=self.scaling, dropout=0.0, **kwargs)
        return self.output(context.reshape(x.shape)), weights

    def _with_distances(self, query: Float[Tensor, "b h t e"], mask: Tensor | None) -> Float[Tensor, "b h t t"]:
        """q_i · r_(j - i) / sqrt(e), which Shaw adds to the scores, combined with the mask."""
        assert self.distance is not None
        positions = torch.arange(query.shape[2], device=query.device)
        window: int = self.config.window
        distances = (positions - positions[:, None]).clamp(-window, window) + window
        bias: Tensor = (query @ self.distance.weight.T).gather(-1, distances.expand(*query.shape[:2], -1, -1)) * self.scaling
        if mask is None:
            return bias
        hidden = ~mask if mask.dtype == torch.bool else mask < _lowest(mask.dtype) / 2
        return bias.masked_fill(hidden, _lowest(bias.dtype))


def _lowest(dtype: torch.dtype) -> float:
    """The mask's value for minus infinity: the lowest number of its type, but not below float32's."""
    return max(torch.finfo(dtype).min, torch.finfo(torch.float32).min)


class SelfAttentionLayer(GradientCheckpointingLayer):  # type: ignore[misc]
    """One layer: attention f, feed g (linear with ReLU, or the identity), and one of five residual schemes."""

    def __init__(self, config: PreTrainedConfig) -> None:
        super().__init__()
        self.residual = config.residual
        self.attention = SelfAttention(config)
        linear = config.feed == "linear"
        self.feed = nn.Sequential(nn.Linear(config.hidden_size, config.hidden_size), nn.ReLU()) if linear else nn.Identity()
        self.norm = self._norm(config)

    def forward(self, x: Float[Tensor, "b t d"], mask: Tensor | None, **kwargs: Any) -> tuple[Tensor, Tensor | None]:
        """The layer's output, and the weights if the backend returns them."""
        mixed, weights = self.attention(self.norm(x) if self.residual in ("course", "prenorm") else x, mask, **kwargs)
        return self._joined(x, mixed), weights

    def _norm(self, config: PreTrainedConfig) -> nn.Module:
        if self.residual == "none":
            return nn.Identity()
        return nn.LayerNorm(config.hidden_size) if self.residual in ("course", "prenorm", "postnorm") else Standardize()

    def _joined(self, x: Tensor, mixed: Tensor) -> Tensor:
        g = self.feed
        match self.residual:
            case "none":
                joined = g(mixed)
            case "course":
                joined = g(x + mixed)
            case "prenorm":
                joined = x + g(mixed)
            case _:
                joined = self.norm(x + g(mixed))
        return joined  # type: ignore[no-any-return]


class Pooling(nn.Module):
    """Pooling to one vector a text: the first token, the mean, or a sum weighted by a query (called question)."""

    def __init__(self, config: PreTrainedConfig) -> None:
        super().__init__()
        self.pool, width = config.pool, config.hidden_size
        self.question = nn.Parameter(torch.zeros(width)) if self.pool == "simple" else None
        self.asked = nn.Linear(width, width) if self.pool.startswith("question") else None
        self.value = nn.Linear(width, width) if self.pool == "question-value" else nn.Identity()

    def forward(self, x: Float[Tensor, "b t d"], real: Bool[Tensor, "b t"]) -> Float[Tensor, "b d"]:
        """The pooled output; padding does not count."""
        if self.pool == "cls":
            return x[torch.arange(len(x), device=x.device), real.int().argmax(-1)]
        mean: Tensor = x.mul(real[..., None]).sum(1) / real.sum(1, keepdim=True).clamp_min(1)
        if self.pool == "mean":
            return mean
        question: Tensor = self.question if self.asked is None else self.asked(mean)[..., None, :]  # type: ignore[assignment]
        scores = (x * question).sum(-1).masked_fill(~real, torch.finfo(x.dtype).min)
        return torch.einsum("bt,btd->bd", scores.softmax(-1), self.value(x))
