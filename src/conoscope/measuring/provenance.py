"""Provenance: the model, the corpus and the command that a table came from."""

import json
import shlex
import sys
from pathlib import Path
from typing import Any

import torch

from conoscope.capture.loading import LoadedModel
from conoscope.capture.pretrained import CARD
from conoscope.common.errors import ModelError
from conoscope.common.sealing import FILES, json_of
from conoscope.common.textfiles import readable
from conoscope.common.versions import versions
from conoscope.corpora.base import PEOPLE, Corpus

SETTINGS = ("checkpoint", "vectors", "seed", "entropy_penalty", "rationale_penalty", "lagrange_penalty")
"""The training settings that provenance records, beside preset, shape, epochs and accuracy."""
ROTARY = ("rope_parameters", "rope_theta", "rotary_dim", "rotary_pct")
"""The configuration keys of rotary positions; some models have no module for these, and RoFormer has neither."""
SHAPE = {"layers": "num_hidden_layers", "width": "hidden_size", "heads": "num_attention_heads"}
"""The configuration keys of a model's shape."""


def of_model(loaded: LoadedModel) -> dict[str, Any]:
    """The model's name, class, type, weight hash and labels, and how it was trained if that is known."""
    digest = loaded.digest()
    _refuse_other(loaded, digest)
    return {
        "name": readable(loaded.name),
        "class": type(loaded.module).__name__,
        "type": loaded.module.config.model_type,
        "hash": digest,
        "labels": list(loaded.labels),
        "training": _training(loaded),
    }


def _refuse_other(loaded: LoadedModel, digest: str) -> None:
    """ModelError if a model is not the one that training.json beside it describes.

    It is told by its hash where no digests of files were written; the hash depends on the version of transformers.
    """
    try:
        facts = json_of(Path(loaded.name) / CARD)
        known = None if FILES in facts or facts["versions"] != versions() else facts["model"]["hash"]
    except (OSError, ValueError, LookupError, TypeError, AttributeError):
        return
    if isinstance(known, str) and known != digest and loaded.module.dtype == torch.float32:
        raise ModelError(
            f"{loaded.name} is not the model that its {CARD} describes: its hash differs; train again, or take a copy; "
            f"if you changed the model yourself, remove {CARD} from its folder"
        )


def _training(loaded: LoadedModel) -> dict[str, Any] | None:
    """The facts from training.json in the model's folder; None if there is none, or conoscope did not write it."""
    try:
        facts = json_of(Path(loaded.name) / CARD)
        settings = facts["settings"]
        training = {
            "preset": None if settings["checkpoint"] else settings["preset"],
            **{name: _whole(getattr(loaded.module.config, where, None)) for name, where in SHAPE.items()},
            **{name: settings.get(name) for name in SETTINGS},
            "epochs": facts["model"]["epochs"],
            "accuracy": facts["scores"]["test"]["accuracy"] if "test" in facts["scores"] else None,
        }
        # Text that UTF-8 cannot encode could not be written into our provenance.
        json.dumps(training, ensure_ascii=False).encode()
    except (OSError, ValueError, LookupError, TypeError, AttributeError, RecursionError):
        return None
    return training if all(isinstance(value, str | int | float | None) for value in training.values()) else None


def _whole(number: Any) -> int | None:
    return number if isinstance(number, int) else None


def of_corpus(corpus: Corpus) -> dict[str, Any]:
    """The corpus: name, split, labels, seed, options and fingerprint."""
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
    """Notes for readers of the tables on this model's keys and heads."""
    config = loaded.module.config.get_text_config()
    turned = any(getattr(config, name, None) for name in ROTARY) or config.model_type == "roformer"
    turned = turned or any("rotary" in type(module).__name__.lower() for module in loaded.module.modules())
    heads, keys = (getattr(config, name, None) for name in ("num_attention_heads", "num_key_value_heads"))
    grouped = isinstance(heads, int) and isinstance(keys, int) and keys < heads
    notes = {"keys are taken after rotary positions": turned, f"{keys} key and value heads serve {heads} query heads": grouped}
    return [note for note, holds in notes.items() if holds]


def command() -> str:
    """The command line of this process."""
    return shlex.join([Path(sys.argv[0]).name, *map(readable, sys.argv[1:])])
