"""Models made by hand, in which it is known which head decides."""

import torch
from torch import nn

from architectures import tiny
from conoscope.capture.loading import LoadedModel, load_model
from conoscope.models.family import SelfAttentionForSequenceClassification, preset
from conoscope.models.tokenizer import build_tokenizer

WORDS = [f"w{number}" for number in range(60)]
LAYER, HEAD = 2, 3
"""The one head that decides."""


def decided() -> LoadedModel:
    """A BERT of three layers of four heads in float64, whose [CLS] learns of the text through one head alone: W_O of every other
    head is 0, and so is what every feed-forward part adds."""
    module = tiny("bert", torch.float64)
    module.config.id2label = {0: "a", 1: "b", 2: "c"}
    torch.manual_seed(1)
    with torch.no_grad():
        for number, layer in enumerate(module.bert.encoder.layer, 1):
            nn.init.zeros_(layer.output.dense.weight)
            weight = layer.attention.output.dense.weight
            mine = torch.zeros_like(weight)
            if number == LAYER:
                mine[:, 8 * (HEAD - 1) : 8 * HEAD] = 3 * weight[:, 8 * (HEAD - 1) : 8 * HEAD]
            weight.copy_(mine)
    return load_model(module, build_tokenizer([" ".join(WORDS)]))


def averaging() -> LoadedModel:
    """A random tp9-base of two layers of two heads in float64, which classifies from the mean of all tokens."""
    tokenizer = build_tokenizer([" ".join(WORDS)])
    torch.manual_seed(0)
    sizes = {"num_hidden_layers": 2, "num_attention_heads": 2, "hidden_size": 16, "num_labels": 3}
    module = SelfAttentionForSequenceClassification(preset("tp9-base", vocab_size=len(tokenizer), **sizes)).double()
    with torch.no_grad():
        for parameter in module.parameters():
            parameter.mul_(2)
    module.config.id2label = {0: "a", 1: "b", 2: "c"}
    return load_model(module, tokenizer)


def texts(count: int = 40, seed: int = 0) -> list[str]:
    """Texts of three to nine random words."""
    draw = torch.Generator().manual_seed(seed)
    lengths = torch.randint(3, 10, (count,), generator=draw).tolist()
    return [" ".join(WORDS[word] for word in torch.randint(60, (length,), generator=draw).tolist()) for length in lengths]


def directed() -> LoadedModel:
    """A Llama in float64 in which the first coordinate of the last word's vector decides: 2 for the words of class a (even
    numbers) and -2 for those of class b. Layers add to the other coordinates alone."""
    module = tiny("llama", torch.float64)
    module.config.id2label = {0: "a", 1: "b", 2: "c"}
    tokenizer = build_tokenizer([" ".join(WORDS)])
    torch.manual_seed(2)
    with torch.no_grad():
        for layer in module.model.layers:
            for weight in (layer.self_attn.o_proj.weight, layer.mlp.down_proj.weight):
                weight.mul_(0.05)[0] = 0.0
        table = module.model.embed_tokens.weight
        table.copy_(torch.randn_like(table))
        for number, word in enumerate(WORDS):
            table[tokenizer.convert_tokens_to_ids(word), 0] = 2.0 if number % 2 == 0 else -2.0
        nn.init.zeros_(module.score.weight)
        module.score.weight[0, 0], module.score.weight[1, 0] = 9.0, -9.0
    return load_model(module, tokenizer)
