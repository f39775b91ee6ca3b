"""build(): the model to train, new or from a checkpoint, and its tokenizer."""

import torch
from torch import Tensor
from transformers import PreTrainedModel, PreTrainedTokenizerBase

from conoscope.capture.loading import LoadedModel
from conoscope.common.errors import ModelError, one_of
from conoscope.corpora import Corpus
from conoscope.corpora.word_vectors import load_vectors
from conoscope.models.family import PRESETS, SelfAttentionForSequenceClassification, preset
from conoscope.models.tokenizer import SPECIAL, build_tokenizer
from conoscope.training.encoding import texts_of
from conoscope.training.new_head import load_for_training
from conoscope.training.settings import Training

LAYERS, WIDTH = 3, 64
BEGINNINGS = ("zeros", "random")


def build(learned: Corpus, chosen: Training) -> tuple[PreTrainedModel, PreTrainedTokenizerBase]:
    """A checkpoint with a new head for these labels, or a new model of the family with this corpus's vocabulary."""
    if chosen.special not in BEGINNINGS:
        raise ModelError(f"no beginning {chosen.special!r} of special tokens; known: {one_of(BEGINNINGS)}")
    if chosen.checkpoint is not None:
        for option in ("preset", "layers", "width", "heads", "vectors", "special"):
            if getattr(chosen, option) != getattr(Training(), option):
                raise ModelError(f"a checkpoint has its own {option}; give --{option} or --from, not both")
        model, tokenizer = load_for_training(str(chosen.checkpoint), learned.labels)
        model.get_input_embeddings().weight.requires_grad_(not chosen.freeze)
    else:
        model, tokenizer = _new(learned, chosen)
    tokenizer.model_max_length = min(chosen.max_length, LoadedModel(model, tokenizer, "").max_length)
    return model, tokenizer


def _freeze_words(embedding: Tensor, special: list[int]) -> None:
    """Freeze the word embeddings, but train those of special tokens: [CLS] has no other parameters of its own."""
    free = torch.zeros(len(embedding), 1)
    free[special] = 1
    embedding.register_hook(lambda gradient: gradient * free.to(gradient))


def _new(learned: Corpus, chosen: Training) -> tuple[PreTrainedModel, PreTrainedTokenizerBase]:
    pool = preset(chosen.preset).pool
    tokenizer = build_tokenizer((text for example in learned for text in texts_of(example)), classifying=pool == "cls")
    vocabulary = sorted(tokenizer.get_vocab(), key=tokenizer.get_vocab().__getitem__)
    vectors = None if chosen.vectors is None else load_vectors(chosen.vectors, vocabulary)
    width = (chosen.width or WIDTH) if vectors is None else vectors.matrix.shape[1]
    if chosen.width is not None and chosen.width != width:
        raise ModelError(f"the vectors {chosen.vectors} have {width} numbers, not {chosen.width}; leave --width out")
    model = SelfAttentionForSequenceClassification(
        preset(
            chosen.preset,
            vocab_size=len(tokenizer),
            hidden_size=width,
            num_hidden_layers=_layers(chosen),
            num_attention_heads=chosen.heads or 1,
            id2label=dict(enumerate(learned.labels)),
            label2id={label: number for number, label in enumerate(learned.labels)},
        )
    )
    with torch.no_grad():
        embedding = model.get_input_embeddings().weight
        special = [tokenizer.get_vocab()[mark] for mark in SPECIAL]
        beginning = embedding[special].clone()
        if vectors is not None:
            embedding.copy_(torch.from_numpy(vectors.matrix))
        embedding[special] = beginning if chosen.special == "random" else 0.0
    if chosen.freeze:
        _freeze_words(embedding, special)
    return model, tokenizer


def _layers(chosen: Training) -> int:
    fixed = PRESETS[chosen.preset].get("num_hidden_layers", LAYERS)
    if fixed == 0 and chosen.layers is not None:
        raise ModelError(f"{chosen.preset} has no layers of attention; leave --layers out")
    return int(fixed if chosen.layers is None else chosen.layers)
