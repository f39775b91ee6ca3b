"""Provenance: the model, the corpus and the command that a table came from."""

import json
import shlex
import sys
from pathlib import Path
from typing import Any

from conoscope.capture.loading import LoadedModel
from conoscope.common.textfiles import readable
from conoscope.corpora.base import PEOPLE, Corpus

SETTINGS = ("checkpoint", "vectors", "seed", "entropy_penalty", "rationale_penalty", "lagrange_penalty")
"""What is told of how a model was trained, beside its preset, its shape and what came of it."""
ROTARY = ("rope_parameters", "rope_theta", "rotary_dim", "rotary_pct")
"""Where a configuration tells of rotary positions, which some models have no module for; RoFormer has neither."""
SHAPE = {"layers": "num_hidden_layers", "width": "hidden_size", "heads": "num_attention_heads"}
"""Where a configuration tells the shape of a model."""


def of_model(loaded: LoadedModel) -> dict[str, Any]:
    """What a model is, the hash of its weights, and how it was trained where that is known."""
    return {
        "name": readable(loaded.name),
        "class": type(loaded.module).__name__,
        "type": loaded.module.config.model_type,
        "hash": loaded.digest(),
        "labels": list(loaded.labels),
        "training": _training(loaded),
    }


def _training(loaded: LoadedModel) -> dict[str, Any] | None:
    """What training.json in the model's folder says; None where there is none, or none that conoscope wrote."""
    try:
        facts = json.loads((Path(loaded.name) / "training.json").read_text(encoding="utf-8"))
        settings = facts["settings"]
        found = {
            "preset": None if settings["checkpoint"] else settings["preset"],
            **{name: _whole(getattr(loaded.module.config, where, None)) for name, where in SHAPE.items()},
            **{name: settings.get(name) for name in SETTINGS},
            "epochs": facts["model"]["epochs"],
            "accuracy": facts["scores"]["test"]["accuracy"] if "test" in facts["scores"] else None,
        }
        # What is no text in UTF-8 could not be written into ours.
        json.dumps(found, ensure_ascii=False).encode()
    except (OSError, ValueError, LookupError, TypeError, AttributeError, RecursionError):
        return None
    return found if all(isinstance(value, str | int | float | None) for value in found.values()) else None


def _whole(number: Any) -> int | None:
    return number if isinstance(number, int) else None


def of_corpus(corpus: Corpus) -> dict[str, Any]:
    """Which texts were read."""
    return {
        "name": corpus.name,
        "split": corpus.split,
        "labels": list(corpus.labels),
        "seed": corpus.seed,
        "options": corpus.options,
        "fingerprint": corpus.fingerprint,
        **({} if corpus.marked_by == PEOPLE else {"marked_by": corpus.marked_by}),
    }


def notes_of(loaded: LoadedModel) -> list[str]:
    """What a reader of the tables must know of this model's keys and heads."""
    config = loaded.module.config.get_text_config()
    turned = any(getattr(config, name, None) for name in ROTARY) or config.model_type == "roformer"
    turned = turned or any("rotary" in type(module).__name__.lower() for module in loaded.module.modules())
    heads, keys = (getattr(config, name, None) for name in ("num_attention_heads", "num_key_value_heads"))
    grouped = isinstance(heads, int) and isinstance(keys, int) and keys < heads
    said = {"keys are taken after rotary positions": turned, f"{keys} key and value heads serve {heads} query heads": grouped}
    return [note for note, holds in said.items() if holds]


def command() -> str:
    """The command line that we were called with."""
    return shlex.join([Path(sys.argv[0]).name, *map(readable, sys.argv[1:])])
