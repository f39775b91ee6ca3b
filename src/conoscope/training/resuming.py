"""Whether a run that was stopped can go on, and from where."""

import json
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from conoscope.common.errors import OutputError, one_of
from conoscope.common.writing import write_text
from conoscope.training.settings import Training

RECORD = "conoscope.json"
WHOLE = ("trainer_state.json", "model.safetensors", "optimizer.pt", "rng_state.pth")
"""What a checkpoint has when it was written to its end."""
FREE = ("resume", "progress", "report_to", "device")
"""Settings that do not decide the weights."""


def identity(chosen: Training) -> dict[str, Any]:
    """The settings that decide the weights, as JSON has them."""
    found: dict[str, Any] = json.loads(json.dumps({k: v for k, v in asdict(chosen).items() if k not in FREE}))
    return found


def of_data(digests: Mapping[str, str]) -> dict[str, str]:
    """The digests of the splits, by names that a message can tell."""
    return {f"{split} data": digest for split, digest in digests.items()}


def last_checkpoint(checkpoints: Path) -> str | None:
    """The newest whole checkpoint."""
    whole = [path for path in checkpoints.glob("checkpoint-*") if all((path / name).is_file() for name in WHOLE)]
    return str(max(whole, key=lambda path: int(path.name.rpartition("-")[2]))) if whole else None


def same_run(checkpoints: Path, facts: Mapping[str, Any]) -> None:
    """Write down whose the checkpoints are; refuse those of another run."""
    record = checkpoints / RECORD
    if last_checkpoint(checkpoints) is not None:
        differ(_read(record), facts, str(checkpoints.parent))
    write_text(record, json.dumps(dict(facts)))


def differ(before: Mapping[str, Any], now: Mapping[str, Any], where: str) -> None:
    """Refuse to go on with what was made otherwise."""
    changed = [key for key, value in now.items() if before.get(key) != value]
    if changed:
        raise OutputError(f"{where} was trained with another {one_of(changed)}; give the same settings and data to go on")


def _read(record: Path) -> dict[str, Any]:
    try:
        found = json.loads(record.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise OutputError(f"{record} cannot be read ({error}); remove {record.parent} to train anew") from error
    return found if isinstance(found, dict) else {}
