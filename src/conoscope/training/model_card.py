"""The model card of a trained model: its data, settings and scores."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from conoscope.common.versions import versions
from conoscope.training.settings import Training


def described(
    chosen: Training, corpora: Mapping[str, Any], model: Mapping[str, Any], scores: Mapping[str, Any]
) -> dict[str, Any]:
    """The content of training.json, from which the card is written; it is completed by the digests of the files."""
    return {
        "corpora": dict(corpora),
        "model": dict(model),
        "settings": vars(chosen),
        "scores": dict(scores),
        "versions": versions(),
    }


def card(facts: Mapping[str, Any]) -> str:
    """The model card as a README for the Hugging Face Hub."""
    settings, model = facts["settings"], facts["model"]
    base = settings["checkpoint"]
    front = ["---", "library_name: transformers", "pipeline_tag: text-classification", "tags: [conoscope, self-attention]"]
    front += [f"base_model: {json.dumps(base)}"] if base and not Path(base).exists() else []
    name = base or settings["preset"]
    blocks = [
        f"# {_plain(name)} on {_plain(facts['corpora']['train']['name'])}",
        f"{_plain(name)}, trained with [conoscope](https://pypi.org/project/conoscope/) for {model['epochs']} epochs, "
        f"seed {settings['seed']}. {model['parameters']:,} parameters. SHA-256 of weights, configuration and tokenizer: "
        f"`{model['hash']}`.",
        "## Data",
        *(f"- {split}: {_plain(c['name'])}, {c['examples']} examples, `{c['digest']}`" for split, c in facts["corpora"].items()),
        "## Scores",
        *(_scored(split, scores) for split, scores in facts["scores"].items()),
        "## Settings",
        "\n".join(["| setting | value |", "|---|---|", *(f"| {key} | {_plain(value)} |" for key, value in settings.items())]),
        "## Versions",
        ", ".join(f"{key} {value}" for key, value in facts["versions"].items()),
    ]  # fmt: skip
    return "\n".join([*front, "---", ""]) + "\n\n".join(blocks) + "\n"


def _scored(split: str, scores: Mapping[str, Any]) -> str:
    classes = ", ".join(
        f"{_plain(label)} {'-' if share is None else f'{share:.4f}'}" for label, share in scores["by_class"].items()
    )
    return (
        f"- {split}: accuracy {scores['accuracy']:.4f}, macro F1 {scores['macro_f1']:.4f}, loss {scores['loss']:.4f}; "
        f"found of each class: {classes}"
    )


def _plain(value: object) -> str:
    """The value as plain text in Markdown: one line, with markup escaped."""
    return "".join(
        c if c.isalnum() or c in " .,:/_-+()" else "\\" + c if c.isascii() and c.isprintable() else " " for c in str(value)
    )
