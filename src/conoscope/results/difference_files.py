"""The folder of differences on disk: a parquet and a CSV file for each table, and differences.json, which says whose folder it is
and, once all is written, the findings."""

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

from conoscope.common.errors import OutputError
from conoscope.common.writing import BESIDE, make_folder, write_text
from conoscope.results.store import stem_of, write_parquet

if TYPE_CHECKING:
    from conoscope.results.differences import Differences

RECORD = "differences.json"


def save_differences(differences: "Differences", folder: str | Path) -> Path:
    """Write the tables of differences, both runs' provenance, the direction and the findings; OutputError for a folder that holds
    anything else than these same differences."""
    runs = {
        "difference": differences.direction,
        "names": [*differences.called],
        "runs": [differences.one.provenance, differences.other.provenance],
    }
    where = make_folder(Path(folder))
    try:
        _refuse_others(where, runs)
        write_text(where / RECORD, _json(runs))
        for name in differences:
            frame, stem = differences[name], stem_of(name)
            write_parquet(frame, where / f"{stem}.parquet", runs, {"name": name})
            write_text(where / f"{stem}.csv", frame.to_csv(index=False, lineterminator="\n"))
        listed = {"findings": differences.findings, "tables": [*differences], "left_out": differences.left_out}
        write_text(where / RECORD, _json({**runs, **listed}))
    except OSError as error:
        raise OutputError(f"cannot write to {where}: {error.strerror or error}; give -o another folder") from error
    return where


def _refuse_others(where: Path, runs: dict[str, Any]) -> None:
    present = {path.name for path in where.iterdir() if not path.name.startswith(BESIDE)}
    if not present:
        return
    if RECORD not in present:
        raise OutputError(f"{where} holds other files than differences; give -o an empty or new folder")
    try:
        before = json.loads((where / RECORD).read_text(encoding="utf-8"))
        same = {name: before.get(name) for name in runs} == json.loads(_json(runs))
    except (ValueError, AttributeError):
        same = False
    if not same:
        raise OutputError(f"{where} holds other differences; give -o another folder, or remove this one")


def _json(value: dict[str, Any]) -> str:
    return json.dumps(value, indent=2, ensure_ascii=False) + "\n"
