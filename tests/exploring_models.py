"""Models and sessions for the tests of the explorer."""

import torch

from architectures import tiny
from conoscope.capture.loading import LoadedModel, load_model
from conoscope.corpora import Corpus
from conoscope.exploring.opening import Opened
from conoscope.exploring.session import Session
from conoscope.models.family import SelfAttentionForSequenceClassification, preset
from conoscope.models.tokenizer import build_tokenizer

TEXT = "w1 w2 w3 not w5 good w7 w8 w9 w10 w11"
WORDS = [*(f"w{number}" for number in range(60)), "not", "good", "very"]
ARCHITECTURES = ("bert", "gpt2", "llama", "modernbert", "distilbert")
FOLLOWED = ("deberta",)


def small(name: str) -> LoadedModel:
    """A tiny random model of three layers of four heads; `family`: a tp9-base that takes the mean of its tokens."""
    tokenizer = build_tokenizer([" ".join(WORDS)])
    if name == "family":
        torch.manual_seed(0)
        sizes = {"num_hidden_layers": 2, "num_attention_heads": 2, "hidden_size": 16, "num_labels": 3}
        module = SelfAttentionForSequenceClassification(preset("tp9-base", vocab_size=len(tokenizer), **sizes))
        with torch.no_grad():
            for parameter in module.parameters():
                parameter.mul_(2)
        return load_model(module, tokenizer)
    return load_model(tiny(name), tokenizer)


def session_of(*models: LoadedModel, corpus: Corpus | None = None, **options: object) -> Session:
    """A session of these models."""
    return Session(Opened(models, (), corpus), **options)  # type: ignore[arg-type]
