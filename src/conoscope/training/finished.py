"""finished(): the scores of a run that is finished already, so that the same command does not train again."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from conoscope.common.errors import OutputError
from conoscope.common.sealing import read_sealed
from conoscope.corpora import Corpus
from conoscope.corpora.base import digest_of
from conoscope.training.encoding import labelled
from conoscope.training.resuming import differ, identity, of_data
from conoscope.training.settings import Training


def text_counts(folder: Path) -> dict[str, int]:
    """How many texts each split of the finished run in a folder has."""
    try:
        corpora = read_sealed(folder / "training.json")["corpora"]
        return {name: int(corpus["examples"]) for name, corpus in corpora.items()}
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise OutputError(f"{folder / 'training.json'} cannot be read: {error}; remove the folder to train again") from error


def finished(folder: Path, settings: Training, splits: Mapping[str, Corpus]) -> tuple[int, dict[str, dict[str, Any]]] | None:
    """The epochs and scores of the finished run in a folder; None if there is none.

    Raises OutputError if it is a run of other settings or data.
    """
    path = folder / "training.json"
    if not path.is_file():
        return None
    try:
        facts = read_sealed(path)
        scores: dict[str, dict[str, Any]] = facts["scores"]
        epochs = int(facts["model"]["epochs"])
        before = {**facts["settings"], **of_data({name: corpus["digest"] for name, corpus in facts["corpora"].items()})}
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise OutputError(f"{path} cannot be read: {error}; remove the folder to train again") from error
    data = {name: digest_of(labelled(corpus)) for name, corpus in splits.items()}
    differ(before, {**identity(settings), **of_data(data)}, str(folder))
    return epochs, scores
