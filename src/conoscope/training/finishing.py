"""Finishing: the folder of a training while it goes on, and how its model comes into place, wherever the run is stopped."""

import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from transformers import PreTrainedModel, PreTrainedTokenizerBase

from conoscope.capture.loading import load_model
from conoscope.capture.pretrained import CARD
from conoscope.common.claiming import claims, hold
from conoscope.common.errors import ConoscopeError, OutputError
from conoscope.common.sealing import FILES, digests, sealed
from conoscope.common.writing import BESIDE, make_folder, move_into, remove_folder, usual_modes, write_text
from conoscope.training.encoding import Encoded
from conoscope.training.model_card import card, described
from conoscope.training.resuming import last_checkpoint
from conoscope.training.settings import Training

CHECKPOINTS, STAGED = "checkpoints", "finished"


def move_finished(folder: Path) -> None:
    """Move a model into place that was whole when its run was stopped, and remove what the run left; nothing to do otherwise."""
    checkpoints = folder / CHECKPOINTS
    staged = checkpoints / STAGED
    if not (staged / CARD).is_file() and not ((folder / CARD).is_file() and checkpoints.exists()):
        return
    with claims():
        hold(folder)
        if (staged / CARD).is_file():
            _move(staged, folder)
        remove_folder(checkpoints)


def write_model(
    folder: Path,
    parts: tuple[PreTrainedModel, PreTrainedTokenizerBase],
    data: Mapping[str, Encoded],
    run: tuple[Training, int, Mapping[str, Mapping[str, Any]]],
) -> None:
    """Write the model, its card and training.json beside the checkpoints, then move them into place; `run`: settings, epochs and
    scores."""
    chosen, epochs, scores = run
    staged = folder / CHECKPOINTS / STAGED
    shutil.rmtree(staged, ignore_errors=True)
    for part in parts:
        part.save_pretrained(staged)
    usual_modes(staged)
    loaded = load_model(staged, device="cpu")
    corpora = {name: {"name": rows.name, "examples": len(rows), "digest": rows.digest} for name, rows in data.items()}
    size = sum(p.numel() for p in loaded.module.parameters())
    model = {"hash": loaded.digest(), "parameters": size, "epochs": epochs}
    facts = described(chosen, corpora, model, scores)
    written = digests(staged, (path.name for path in staged.iterdir() if path.is_file()))
    write_text(staged / "README.md", card(facts))
    write_text(staged / CARD, sealed({**facts, FILES: written}, 2))
    _move(staged, folder)


def _move(staged: Path, folder: Path) -> None:
    logs = [path for path in staged.parent.glob("runs") if path.is_dir()]
    move_into(folder, (*logs, *staged.iterdir()), last=CARD)


@contextmanager
def checkpoints_in(folder: Path) -> Iterator[Path]:
    """Context manager for the Trainer's own folder, which holds pickles: it is kept only if the run fails, to go on from."""
    checkpoints = make_folder(folder) / CHECKPOINTS
    _refuse_files(folder)
    try:
        with claims():
            hold(folder)
            _refuse_files(folder)
            yield from _kept(checkpoints)
    finally:
        with suppress(OSError):  # it is not empty
            folder.rmdir()


def _refuse_files(folder: Path) -> None:
    if any(path.name != CHECKPOINTS and not path.name.startswith(BESIDE) for path in folder.iterdir()):
        raise OutputError(f"{folder} is there already and not empty; give -o a new folder")


def _kept(checkpoints: Path) -> Iterator[Path]:
    before = last_checkpoint(checkpoints)
    if not before:
        shutil.rmtree(checkpoints, ignore_errors=True)
    checkpoints.mkdir(exist_ok=True)
    keep = False
    try:
        yield checkpoints
    except ConoscopeError:
        keep = before is not None
        raise
    except BaseException:
        keep = last_checkpoint(checkpoints) is not None
        raise
    finally:
        if not keep:
            remove_folder(checkpoints)
