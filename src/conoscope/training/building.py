"""build(): the model to train, new or from a checkpoint, and its tokenizer. untrained(): the same, ready to be measured."""

from copy import deepcopy
from dataclasses import replace

import torch
from torch import Tensor
from transformers import PreTrainedModel, PreTrainedTokenizerBase, set_seed

from conoscope.capture.device import device_of
from conoscope.capture.loading import LoadedModel, load_model
from conoscope.common.errors import ModelError, one_of
from conoscope.corpora import Corpus, Texts, corpus_of
from conoscope.corpora.word_vectors import WordVectors, load_vectors
from conoscope.models.family import PRESETS, SelfAttentionForSequenceClassification, preset
from conoscope.models.tokenizer import SPECIAL, build_tokenizer
from conoscope.training.encoding import texts_of
from conoscope.training.memo import Memo, in_order, of_tokenizer
from conoscope.training.new_head import load_for_training
from conoscope.training.settings import Training

LAYERS, WIDTH = 3, 64
BEGINNINGS = ("zeros", "random")
OF_FAMILY = ("preset", "layers", "width", "heads", "vectors", "lift", "special", "positions", "residual", "position_scale")
"""Settings of a new model, which a checkpoint has from its own configuration."""


def untrained(corpus: Texts, settings: Training | None = None, memo: Memo | None = None) -> LoadedModel:
    """The model before the first step: the weights that `train` begins with for this corpus, these settings and their seed."""
    chosen = settings or Training()
    set_seed(chosen.seed)
    model, tokenizer = build(corpus_of(corpus), chosen, memo)
    loaded = load_model(model.to(device_of(chosen.device)), tokenizer)
    return replace(loaded, name=f"{chosen.checkpoint or chosen.preset} before training")


def build(learned: Corpus, chosen: Training, memo: Memo | None = None) -> tuple[PreTrainedModel, PreTrainedTokenizerBase]:
    """A checkpoint with a new head for these labels, or a new model of the family with this corpus's vocabulary."""
    if chosen.special not in BEGINNINGS:
        raise ModelError(f"no beginning {chosen.special!r} of special tokens; known: {one_of(BEGINNINGS)}")
    if chosen.checkpoint is not None:
        for option in OF_FAMILY:
            if getattr(chosen, option) != getattr(Training(), option):
                raise ModelError(f"a checkpoint has its own {option}; give --{option.replace('_', '-')} or --from, not both")
        model, tokenizer = load_for_training(str(chosen.checkpoint), learned.labels)
        model.get_input_embeddings().weight.requires_grad_(not chosen.freeze)
    else:
        model, tokenizer = _new(learned, chosen, memo)
    tokenizer.model_max_length = min(chosen.max_length, LoadedModel(model, tokenizer, "").max_length)
    return model, tokenizer


def _freeze_words(embedding: Tensor, special: list[int]) -> None:
    """Freeze the word embeddings, but train those of special tokens: [CLS] has no other parameters of its own."""
    free = torch.zeros(len(embedding), 1)
    free[special] = 1
    there: dict[tuple[torch.device, torch.dtype], Tensor] = {}

    def of_special(gradient: Tensor) -> Tensor:
        # Copied once: a copy at every step would wait for a GPU.
        place = gradient.device, gradient.dtype
        if place not in there:
            there[place] = free.to(gradient)
        return gradient * there[place]

    embedding.register_hook(of_special)


def _new(learned: Corpus, chosen: Training, memo: Memo | None) -> tuple[PreTrainedModel, PreTrainedTokenizerBase]:
    changes = _changes(chosen)
    tokenizer = _tokenizer(learned, chosen, memo)
    vectors = _vectors(tokenizer, chosen, memo)
    width = (chosen.width or WIDTH) if vectors is None else vectors.matrix.shape[1]
    if chosen.width is not None and chosen.width != width:
        have = "have" if chosen.lift is None else "are lifted to"
        raise ModelError(f"the vectors {chosen.vectors} {have} {width} numbers, not {chosen.width}; leave --width out")
    model = SelfAttentionForSequenceClassification(
        preset(
            chosen.preset,
            **changes,
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


def _changes(chosen: Training) -> dict[str, str | float]:
    """The options that replace those of the preset; ModelError if one would have no effect."""
    given = {"positions": chosen.positions, "residual": chosen.residual}
    changes: dict[str, str | float] = {name: value for name, value in given.items() if value is not None}
    config = preset(chosen.preset, **changes)
    if config.num_hidden_layers == 0 and (chosen.residual is not None or chosen.positions == "relative"):
        option = "residual" if chosen.residual is not None else "positions relative"
        raise ModelError(f"{chosen.preset} has no layers of attention; leave --{option} out")
    if chosen.position_scale != 1.0 and config.positions != "sinusoidal":
        raise ModelError(
            f"position_scale={chosen.position_scale:g} multiplies sinusoidal positions, and {chosen.preset} has positions "
            f"{config.positions}; give --positions sinusoidal, or leave --position-scale out"
        )
    if config.positions == "learned":
        changes["max_position_embeddings"] = chosen.max_length
    return {**changes, "position_scale": chosen.position_scale}


def _tokenizer(learned: Corpus, chosen: Training, memo: Memo | None) -> PreTrainedTokenizerBase:
    """A tokenizer of this corpus's words; with a memo a copy of the one that is kept."""
    classifying = preset(chosen.preset).pool == "cls"

    def make() -> PreTrainedTokenizerBase:
        return build_tokenizer((text for example in learned for text in texts_of(example)), classifying)

    return make() if memo is None else deepcopy(memo.kept("tokenizer", (in_order(learned), classifying), make))


def _vectors(tokenizer: PreTrainedTokenizerBase, chosen: Training, memo: Memo | None) -> WordVectors | None:
    """The vectors of a tokenizer's vocabulary, lifted if `lift` is set; None if there are none."""
    source, lift = chosen.vectors, chosen.lift
    if source is None:
        if lift is not None:
            raise ModelError(f"lift={lift} without word vectors to lift; give --vectors, or --width for random ones")
        return None

    def make() -> WordVectors:
        vocabulary = tokenizer.get_vocab()
        loaded = load_vectors(source, sorted(vocabulary, key=vocabulary.__getitem__))
        return loaded if lift is None else loaded.lifted(lift)

    return make() if memo is None else memo.kept("vectors", (str(source), lift, of_tokenizer(tokenizer)), make)
