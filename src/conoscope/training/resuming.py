"""Resuming: whether an interrupted training can continue, and from which checkpoint."""

import json
from collections.abc import Mapping
from dataclasses import asdict, fields
from pathlib import Path
from typing import Any

from conoscope.common.errors import OutputError, listed, one_of
from conoscope.common.sealing import json_of, read_sealed, sealed
from conoscope.common.writing import write_text
from conoscope.training.settings import Training

RECORD = "conoscope.json"
WHOLE = ("trainer_state.json", "model.safetensors", "optimizer.pt", "rng_state.pth")
"""The files of a complete checkpoint."""
FREE = ("resume", "progress", "report_to", "device")
"""Settings that do not determine the weights."""
FIELDS = tuple(field.name for field in fields(Training))
"""What is told with its values where it differs; of data there are only hashes."""


def identity(chosen: Training) -> dict[str, Any]:
    """The settings that determine the weights, as JSON values."""
    settings: dict[str, Any] = json.loads(json.dumps({k: v for k, v in asdict(chosen).items() if k not in FREE}))
    return settings


def of_data(digests: Mapping[str, str]) -> dict[str, str]:
    """The digests of the splits, keyed as `train data` for error messages."""
    return {f"{split} data": digest for split, digest in digests.items()}


def last_checkpoint(checkpoints: Path) -> str | None:
    """The path of the newest complete checkpoint; None if there is none."""
    whole = [path for path in checkpoints.glob("checkpoint-*") if _is_whole(path)]
    return str(max(whole, key=lambda path: int(path.name.rpartition("-")[2]))) if whole else None


def _is_whole(checkpoint: Path) -> bool:
    """Whether all files are there; the state is written last, and not at once."""
    try:
        return all((checkpoint / name).is_file() for name in WHOLE) and isinstance(json_of(checkpoint / WHOLE[0]), dict)
    except (OSError, ValueError):
        return False


def same_run(checkpoints: Path, facts: Mapping[str, Any]) -> None:
    """Record the run that the checkpoints belong to; raises OutputError if they are of another run."""
    record = checkpoints / RECORD
    if last_checkpoint(checkpoints) is not None:
        differ(_read(record), facts, str(checkpoints.parent))
    write_text(record, sealed(facts))


def differ(before: Mapping[str, Any], now: Mapping[str, Any], where: str) -> None:
    """Raise OutputError if the earlier run had other settings or data."""
    # A record of an earlier version lacks the settings that came later, which then had what is their default now.
    known = {**identity(Training()), **before}
    changed = [key for key, value in now.items() if known.get(key) != value]
    if changed:
        values = listed(f"{key} {_shown(known[key])} then, {_shown(now[key])} now" for key in changed if key in FIELDS)
        raise OutputError(
            f"{where} was trained with another {one_of(changed)}; give the same settings and data to go on, or -o a new folder"
            + (f" ({values})" if values else "")
        )


def _shown(value: Any) -> str:
    return "default" if value is None else str(value)


def _read(record: Path) -> dict[str, Any]:
    try:
        facts = read_sealed(record)
    except (OSError, ValueError) as error:
        raise OutputError(f"{record} cannot be read ({error}); remove {record.parent} to train anew") from error
    return facts if isinstance(facts, dict) else {}
