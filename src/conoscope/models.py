"""The self-attention classifiers, as ordinary Hugging Face models.

`pure-attention` is the model of Fosse et al. (2023): word embeddings, sinusoidal positions, L layers of
attention and residual with a normalisation that has no parameters, and a linear map of the last [CLS].
Importing this module registers the family with transformers' Auto classes.
"""

import math
from collections.abc import Callable
from typing import Any, ClassVar

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn
from transformers import AutoConfig, AutoModelForSequenceClassification, PreTrainedConfig, PreTrainedModel
from transformers import initialization as init
from transformers.masking_utils import create_bidirectional_mask
from transformers.modeling_outputs import SequenceClassifierOutput
from transformers.modeling_utils import ALL_ATTENTION_FUNCTIONS

from conoscope.errors import ModelError, one_of

PRESETS: dict[str, dict[str, Any]] = {
    "pure-attention": {"positions": "sinusoidal", "num_attention_heads": 1},
}


POSITIONS = ("none", "sinusoidal")


class SelfAttentionConfig(PreTrainedConfig):  # type: ignore[misc]
    """The shape of a self-attention classifier; `positions` is "sinusoidal" or "none"."""

    model_type = "conoscope-self-attention"

    vocab_size: int = 1000
    hidden_size: int = 300
    num_hidden_layers: int = 1
    num_attention_heads: int = 1
    positions: str = "sinusoidal"
    pad_token_id: int | None = 0


def preset(name: str, **changes: Any) -> SelfAttentionConfig:
    """The configuration of a named model of the family, with changes."""
    if name not in PRESETS:
        raise ModelError(f"no preset {name!r}; known presets: {one_of(PRESETS)}")
    return SelfAttentionConfig(**{**PRESETS[name], **changes})


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


def eager_attention_forward(
    module: nn.Module, query: Tensor, key: Tensor, value: Tensor, attention_mask: Tensor | None, **kwargs: Any
) -> tuple[Tensor, Tensor]:
    """Attention as its formula reads; transformers and conoscope's capture find it by this name."""
    scores = query @ key.transpose(-1, -2) * kwargs["scaling"]
    weights = (scores if attention_mask is None else scores + attention_mask).softmax(-1)
    return (weights @ value).transpose(1, 2).contiguous(), weights


class InProjection(nn.Linear):
    """Queries, keys or values: drawn as torch's MultiheadAttention does, which draws the three as one (3d, d) matrix."""


class SelfAttention(nn.Module):
    """Queries, keys and values with bias, one softmax per head, an output projection with bias."""

    is_causal = False

    def __init__(self, config: SelfAttentionConfig) -> None:
        super().__init__()
        width = config.hidden_size
        if width % config.num_attention_heads:
            raise ModelError(f"width {width} cannot be cut into {config.num_attention_heads} heads; give a multiple")
        self.config = config
        self.heads = config.num_attention_heads
        self.scaling = (width // self.heads) ** -0.5
        self.query, self.key, self.value = (InProjection(width, width) for _ in range(3))
        self.output = nn.Linear(width, width)

    def forward(self, x: Float[Tensor, "b t d"], mask: Tensor | None, **kwargs: Any) -> tuple[Tensor, Tensor | None]:
        """The mixed vectors, and the weights where the backend gives them."""
        heads = (*x.shape[:2], self.heads, -1)
        query, key, value = (each(x).view(heads).transpose(1, 2) for each in (self.query, self.key, self.value))
        attend: Callable[..., tuple[Tensor, Tensor | None]] = ALL_ATTENTION_FUNCTIONS.get_interface(
            self.config._attn_implementation, eager_attention_forward
        )
        context, weights = attend(self, query, key, value, mask, scaling=self.scaling, dropout=0.0, **kwargs)
        return self.output(context.reshape(x.shape)), weights


class SelfAttentionLayer(nn.Module):
    """x ← standardize(x + attention(x))."""

    def __init__(self, config: SelfAttentionConfig) -> None:
        super().__init__()
        self.attention = SelfAttention(config)

    def forward(self, x: Float[Tensor, "b t d"], mask: Tensor | None, **kwargs: Any) -> tuple[Tensor, Tensor | None]:
        """The layer's output, and the weights where the backend gives them."""
        mixed, weights = self.attention(x, mask, **kwargs)
        return standardize(x + mixed), weights


class SelfAttentionForSequenceClassification(PreTrainedModel):  # type: ignore[misc]
    """A stack of self-attention layers that reads the class off the first token, [CLS]."""

    config_class = SelfAttentionConfig
    base_model_prefix = "classifier_of"
    accepts_loss_kwargs = False
    _supports_sdpa = True
    _supports_attention_backend = True
    _no_split_modules: ClassVar[list[str]] = ["SelfAttentionLayer"]

    def __init__(self, config: SelfAttentionConfig) -> None:
        super().__init__(config)
        if config.positions not in POSITIONS:
            raise ModelError(f"no positions {config.positions!r}; known: {one_of(POSITIONS)}")
        self.embedding = nn.Embedding(config.vocab_size, config.hidden_size, padding_idx=config.pad_token_id)
        self.layers = nn.ModuleList(SelfAttentionLayer(config) for _ in range(config.num_hidden_layers))
        self.classifier = nn.Linear(config.hidden_size, config.num_labels)
        self.post_init()

    def _init_weights(self, module: nn.Module) -> None:
        if isinstance(module, nn.Embedding):
            init.normal_(module.weight)
            if module.padding_idx is not None:
                init.zeros_(module.weight[module.padding_idx])
        elif isinstance(module, InProjection):
            init.xavier_uniform_(module.weight, gain=0.5**0.5)
            init.zeros_(module.bias)
        elif isinstance(module, nn.Linear):
            init.kaiming_uniform_(module.weight, a=math.sqrt(5))
            init.zeros_(module.bias)

    def get_input_embeddings(self) -> nn.Embedding:
        """The word vectors."""
        return self.embedding

    def set_input_embeddings(self, value: nn.Embedding) -> None:
        """Take other word vectors."""
        self.embedding = value

    def forward(
        self,
        input_ids: Int[Tensor, "b t"],
        attention_mask: Tensor | None = None,
        labels: Int[Tensor, " b"] | None = None,
        output_hidden_states: bool | None = None,
        output_attentions: bool | None = None,
        **kwargs: Any,
    ) -> SequenceClassifierOutput:
        """Logits, the loss where labels are given, hidden states (0: embeddings without positions) on request."""
        real = torch.ones_like(input_ids).bool() if attention_mask is None else attention_mask.bool()
        embedded = self.embedding(input_ids)
        mask = create_bidirectional_mask(self.config, embedded, attention_mask)
        x, states, maps = self._place(embedded, real), [embedded], []
        for layer in self.layers:
            x, weights = layer(x, mask)
            states.append(x)
            maps.append(weights)
        first = real.int().argmax(-1)
        logits = self.classifier(x[torch.arange(len(x), device=x.device), first])
        return SequenceClassifierOutput(
            loss=None if labels is None else nn.functional.cross_entropy(logits, labels),
            logits=logits,
            hidden_states=tuple(states) if output_hidden_states else None,
            attentions=tuple(maps) if output_attentions else None,
        )

    def _place(self, embedded: Float[Tensor, "b t d"], real: Bool[Tensor, "b t"]) -> Float[Tensor, "b t d"]:
        if self.config.positions == "none":
            return embedded
        table = sinusoids(embedded.shape[1], embedded.shape[2], like=embedded)
        return embedded + table[(real.cumsum(-1) - 1).clamp_min(0)]


AutoConfig.register(SelfAttentionConfig.model_type, SelfAttentionConfig, exist_ok=True)
AutoModelForSequenceClassification.register(SelfAttentionConfig, SelfAttentionForSequenceClassification, exist_ok=True)
