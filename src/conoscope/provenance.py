"""Provenance: the model, the corpus and the command that a table came from."""

import shlex
import sys
from pathlib import Path
from typing import Any

from conoscope.corpora import Corpus
from conoscope.loading import LoadedModel


def of_model(loaded: LoadedModel) -> dict[str, Any]:
    """What a model is, and the hash of its weights."""
    return {
        "name": loaded.name,
        "class": type(loaded.module).__name__,
        "type": loaded.module.config.model_type,
        "hash": loaded.digest(),
        "labels": list(loaded.labels),
    }


def of_corpus(corpus: Corpus) -> dict[str, Any]:
    """Which texts were read."""
    return {
        "name": corpus.name,
        "split": corpus.split,
        "labels": list(corpus.labels),
        "seed": corpus.seed,
        "options": corpus.options,
        "fingerprint": corpus.fingerprint,
    }


def command() -> str:
    """The command line that we were called with."""
    return shlex.join([Path(sys.argv[0]).name, *sys.argv[1:]])
