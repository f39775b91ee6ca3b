"""Tiny random models of many architectures, with weights large enough that a wrong mask shows."""

from typing import Any

import torch
from transformers import AutoConfig, AutoModelForSequenceClassification, PreTrainedModel

from conoscope.capture.batch import Batch

VOCABULARY = 99
_ENCODER = {
    "hidden_size": 32,
    "num_hidden_layers": 3,
    "num_attention_heads": 4,
    "intermediate_size": 37,
    "max_position_embeddings": 64,
}
_RELATIVE = {"relative_attention": True, "pos_att_type": ["c2p", "p2c"]}

SHAPES: dict[str, dict[str, Any]] = {
    "bert": _ENCODER,
    "roberta": _ENCODER,
    "xlm-roberta": _ENCODER,
    "electra": {**_ENCODER, "embedding_size": 16},
    "albert": {**_ENCODER, "embedding_size": 16},
    "distilbert": {"dim": 32, "n_layers": 3, "n_heads": 4, "hidden_dim": 37, "max_position_embeddings": 64},
    "modernbert": {**_ENCODER, "local_attention": 8, "global_attn_every_n_layers": 2},
    "gpt2": {"n_embd": 32, "n_layer": 3, "n_head": 4, "n_positions": 64},
    "llama": {**_ENCODER, "num_key_value_heads": 2},
    "deberta": {**_ENCODER, **_RELATIVE, "max_relative_positions": 16},
    "deberta-v2": {**_ENCODER, **_RELATIVE, "position_buckets": 8, "share_att_key": True},
    "mpnet": _ENCODER,
}
FOLLOWED = ("deberta", "deberta-v2", "mpnet")
"""Those off transformers' attention interface."""
CAUSAL = ("gpt2", "llama")


def tiny(name: str, dtype: torch.dtype = torch.float32) -> PreTrainedModel:
    torch.manual_seed(0)
    config = AutoConfig.for_model(
        name, **SHAPES[name], vocab_size=VOCABULARY, initializer_range=0.3, pad_token_id=0, num_labels=3
    )
    model = AutoModelForSequenceClassification.from_config(config, dtype=dtype).eval()
    for parameter in model.parameters():
        parameter.data = parameter.to(dtype)  # DeBERTa makes some in float32, whatever it is told.
    return model


def padded(lengths: tuple[int, ...] = (11, 7, 4), extra: int = 0, left: bool = False) -> Batch:
    """Random ids of these lengths, padded to the longest and by `extra` more."""
    generator = torch.Generator().manual_seed(1)
    width = max(lengths) + extra
    ids, real = torch.zeros(len(lengths), width, dtype=torch.long), torch.zeros(len(lengths), width, dtype=torch.bool)
    for row, length in enumerate(lengths):
        where = slice(width - length, width) if left else slice(0, length)
        ids[row, where] = torch.randint(5, VOCABULARY, (length,), generator=generator)
        real[row, where] = True
    return Batch.of_ids(ids, real, at=real.int().argmax(-1))
