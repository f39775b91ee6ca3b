"""A family of self-attention classifiers, as ordinary Hugging Face models: every member is one configuration.

`pure-attention` is the model of Fosse et al. (2023): word embeddings, sinusoidal positions, L layers of attention and
residual with a parameter-free normalisation, and a linear layer on the last layer's [CLS]. The `tp9` models are the steps of a
course: attention and mean pooling, then residual, positions, [CLS]. The baselines have no layers: they pool word vectors.
Importing this module registers the family with transformers' Auto classes.
"""

import math
from typing import Any, ClassVar

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn
from transformers import AutoConfig, AutoModelForSequenceClassification, PreTrainedConfig, PreTrainedModel
from transformers import initialization as init
from transformers.masking_utils import create_bidirectional_mask
from transformers.modeling_outputs import SequenceClassifierOutput

from conoscope.common.errors import ModelError, one_of
from conoscope.models.layers import InProjection, Pooling, SelfAttentionLayer, sinusoids

COURSE = {"num_hidden_layers": 3, "positions": "none", "residual": "none", "feed": "linear", "output_projection": False}
BASELINE = {"num_hidden_layers": 0, "positions": "none"}
PRESETS: dict[str, dict[str, Any]] = {
    "pure-attention": {"pool": "cls", "positions": "sinusoidal", "residual": "pure", "feed": "none"},
    "tp9-base": {**COURSE, "pool": "mean"},
    "tp9-residual": {**COURSE, "pool": "mean", "residual": "course"},
    "tp9-positions": {**COURSE, "pool": "mean", "positions": "sinusoidal"},
    "tp9-cls": {**COURSE, "pool": "cls", "positions": "sinusoidal"},
    "mean": {**BASELINE, "pool": "mean"},
    "simple": {**BASELINE, "pool": "simple"},
    "question": {**BASELINE, "pool": "question"},
    "question-value": {**BASELINE, "pool": "question-value"},
}
CHOICES = {
    "pool": ("cls", "mean", "simple", "question", "question-value"),
    "positions": ("none", "sinusoidal", "learned", "relative"),
    "residual": ("none", "course", "prenorm", "postnorm", "pure"),
    "feed": ("none", "linear"),
}
LEARNED = 512
"""Default number of learned positions."""


class SelfAttentionConfig(PreTrainedConfig):  # type: ignore[misc]
    """Configuration of a self-attention classifier.

    `pool`: the pooled output: the first token, the mean, or attention pooling with a query that is learned (`simple`) or computed
    from the mean (`question`; `question-value` also projects the values). `positions`: none, sinusoidal (times `position_scale`),
    learned, or relative (Shaw), with distances clipped at `window`. `residual`: none, x ← g(f(x)); course, g(x + f(LN x));
    prenorm, x + g(f(LN x)); postnorm, LN(x + g(f(x))); pure, standardize(x + g(f(x))), where f is attention and g is `feed`:
    linear and ReLU, or none.
    """

    model_type = "conoscope-self-attention"

    vocab_size: int = 1000
    hidden_size: int = 300
    num_hidden_layers: int = 1
    num_attention_heads: int = 1
    pool: str = "cls"
    positions: str = "sinusoidal"
    position_scale: float = 1.0
    residual: str = "pure"
    feed: str = "none"
    output_projection: bool = True
    window: int = 16
    max_position_embeddings: int | None = None
    pad_token_id: int | None = 0

    def to_dict(self) -> dict[str, Any]:
        """The options by name, without a `position_scale` of 1: models saved before it existed keep their hash."""
        options: dict[str, Any] = super().to_dict()
        if options.get("position_scale") == 1.0:
            del options["position_scale"]
        return options


def preset(name: str, **changes: Any) -> SelfAttentionConfig:
    """The configuration of a named preset, with changes."""
    if name not in PRESETS:
        raise ModelError(f"no preset {name!r}; known presets: {one_of(PRESETS)}")
    return SelfAttentionConfig(**{**PRESETS[name], **changes})


class SelfAttentionForSequenceClassification(PreTrainedModel):  # type: ignore[misc]
    """A stack of self-attention layers and a linear classifier on the pooled output of the last."""

    config_class = SelfAttentionConfig
    base_model_prefix = "classifier_of"
    accepts_loss_kwargs = False
    supports_gradient_checkpointing = True
    _supports_sdpa = True
    _supports_attention_backend = True
    _no_split_modules: ClassVar[list[str]] = ["SelfAttentionLayer"]

    def __init__(self, config: SelfAttentionConfig) -> None:
        super().__init__(config)
        for option, known in CHOICES.items():
            if getattr(config, option) not in known:
                raise ModelError(f"no {option} {getattr(config, option)!r}; known: {one_of(known)}")
        learned = config.positions == "learned"
        if learned and config.max_position_embeddings is None:
            config.max_position_embeddings = LEARNED
        self.embedding = nn.Embedding(config.vocab_size, config.hidden_size, padding_idx=config.pad_token_id)
        self.position = nn.Embedding(config.max_position_embeddings or LEARNED, config.hidden_size) if learned else None
        self.layers = nn.ModuleList(SelfAttentionLayer(config) for _ in range(config.num_hidden_layers))
        self.pooling = Pooling(config)
        self.classifier = nn.Linear(config.hidden_size, config.num_labels)
        self.post_init()

    def _init_weights(self, module: nn.Module) -> None:
        if isinstance(module, nn.Embedding):
            init.normal_(module.weight, std=1.0 if module is self.embedding else 0.02)
            if module.padding_idx is not None:
                init.zeros_(module.weight[module.padding_idx])
        elif isinstance(module, InProjection):
            init.xavier_uniform_(module.weight, gain=0.5**0.5)
            init.zeros_(module.bias)
        elif isinstance(module, nn.Linear):
            init.kaiming_uniform_(module.weight, a=math.sqrt(5))
            init.zeros_(module.bias)
        elif isinstance(module, nn.LayerNorm):
            init.ones_(module.weight)
            init.zeros_(module.bias)
        elif isinstance(module, Pooling) and module.question is not None:
            init.normal_(module.question, std=0.02)

    def get_input_embeddings(self) -> nn.Embedding:
        """The embedding of words."""
        return self.embedding

    def set_input_embeddings(self, value: nn.Embedding) -> None:
        """Replace the embedding of words."""
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
        """Logits; the loss if labels are given; hidden states (0: embeddings without positions) and attentions on request."""
        real = torch.ones_like(input_ids).bool() if attention_mask is None else attention_mask.bool()
        embedded = self.embedding(input_ids)
        mask = create_bidirectional_mask(self.config, embedded, attention_mask)
        x, states, maps = self._add_positions(embedded, real), [embedded], []
        for layer in self.layers:
            x, weights = layer(x, mask)
            states.append(x)
            maps.append(weights)
        logits = self.classifier(self.pooling(x, real))
        return SequenceClassifierOutput(
            loss=None if labels is None else nn.functional.cross_entropy(logits, labels),
            logits=logits,
            hidden_states=tuple(states) if output_hidden_states else None,
            attentions=tuple(maps) if output_attentions else None,
        )

    def _add_positions(self, embedded: Float[Tensor, "b t d"], real: Bool[Tensor, "b t"]) -> Float[Tensor, "b t d"]:
        positions = (real.cumsum(-1) - 1).clamp_min(0)
        if self.config.positions == "sinusoidal":
            table = sinusoids(embedded.shape[1], embedded.shape[2], like=embedded) * float(self.config.position_scale)
            return embedded + table[positions]
        return embedded if self.position is None else embedded + self.position(positions)


AutoConfig.register(SelfAttentionConfig.model_type, SelfAttentionConfig, exist_ok=True)
AutoModelForSequenceClassification.register(SelfAttentionConfig, SelfAttentionForSequenceClassification, exist_ok=True)
