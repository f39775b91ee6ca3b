"""Records: the results of a study, as JSON and as tables."""

import json
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from math import isnan
from pathlib import Path
from typing import Any

import pandas as pd

from conoscope.common.errors import OutputError
from conoscope.common.writing import make_folder, write_text
from conoscope.results.store import TableInfo, write_provenance, write_tables
from conoscope.studies.base import Study
from conoscope.studies.contrasts import words
from conoscope.studies.judging import averaged, compared, judged

Record = dict[str, Any]
"""The results of a study, as written to record.json."""
NUMBERS = ("published", "tag", "ours", "sd", "n", "holds")
"""Columns of a published figure that are not its keys."""
NEEDED = (
    "study", "title", "source", "differs", "published", "claims", "means", "runs", "failed", "quick",
    "command", "commit", "seeds", "devices", "versions", "seconds",
)  # fmt: skip


def recorded(study: Study, runs: Sequence[Mapping[str, Any]], failed: Sequence[str], how: Mapping[str, Any]) -> Record:
    """The record of the finished runs of a study; `how` has the options of the run."""
    rows = pd.DataFrame([{**run["keys"], "seed": run["seed"], **row} for run in runs for row in run["rows"]])
    means = averaged(rows)
    return {
        "study": study.name,
        "title": study.title,
        "source": study.source,
        "differs": list(study.differs),
        "command": _command(study.name, runs, how),
        "commit": commit(),
        **how,
        "seeds": sorted({run["seed"] for run in runs}),
        "devices": sorted({run["device"] for run in runs}),
        "versions": runs[0]["versions"],
        "seconds": round(_span([(run["began"], run["ended"]) for run in runs]), 1),
        "runs": [{**run["keys"], "seed": run["seed"], "examples": run["examples"],
                  "seconds": round(run["ended"] - run["began"], 1)} for run in runs],
        "failed": list(failed),
        "published": _records(compared(means, study.published)),
        "claims": [_plain(asdict(judged(claim, rows))) for claim in study.claims],
        "means": _records(means),
    }  # fmt: skip


def _command(name: str, runs: Sequence[Mapping[str, Any]], how: Mapping[str, Any]) -> str:
    """The command that reproduces the same numbers on any machine."""
    limit = f" --limit {how['limit']}" if how["limit"] else ""
    quick = " --quick" if how["quick"] else ""
    model = f" --model {how['model']}" if how.get("model") else ""
    return f"conoscope reproduce {name} --seeds {len({run['seed'] for run in runs})}{limit}{quick}{model}"


def _records(frame: pd.DataFrame) -> list[dict[str, Any]]:
    """Rows as dicts without missing values, with whole numbers as integers."""
    return [{str(name): _plain(value) for name, value in row.items() if not _missing(value)} for row in frame.to_dict("records")]


def _missing(value: Any) -> bool:
    return value is None or (isinstance(value, float) and isnan(value))


def _plain(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {name: _plain(inner) for name, inner in value.items()}
    if isinstance(value, list):
        return [_plain(inner) for inner in value]
    return value if not isinstance(value, float) else int(value) if value.is_integer() else float(f"{value:.5g}")


def _span(times: list[tuple[float, float]]) -> float:
    """Total time in which at least one run was active."""
    total, until = 0.0, 0.0
    for began, ended in sorted(times):
        total += max(0.0, ended - max(began, until))
        until = max(until, ended)
    return total


def commit() -> str | None:
    """The git commit, if the code runs from a checkout."""
    git = ["git", "-C", str(Path(__file__).parent), "describe", "--always", "--dirty", "--abbrev=12", "--exclude=*"]
    try:
        return subprocess.run(git, capture_output=True, encoding="utf-8", check=True).stdout.strip()
    except (OSError, subprocess.CalledProcessError):
        return None


def read_record(path: str | Path) -> Record:
    """The record in a file."""
    try:
        record: Record = json.loads(Path(path).read_text(encoding="utf-8"))
        if missing := [name for name in NEEDED if name not in record]:
            raise ValueError(f"it has no {missing[0]!r}")
    except (OSError, ValueError, TypeError) as error:
        raise OutputError(f"no record can be read from {path}: {error}; expected record.json of conoscope reproduce") from error
    return record


def write_record(folder: Path, record: Record) -> None:
    """Write record.json, and a folder of tables for conoscope report."""
    tables = tables_of(record)
    provenance = {
        "model": {"name": record["study"]},
        "corpus": {},
        "seen": {},
        "shards": [],
        "measures": [record["study"]],
        "options": {"seeds": record["seeds"], "limit": record["limit"], "quick": record["quick"]},
        **{name: record[name] for name in ("versions", "command")},
        "notes": record["differs"],
    }
    try:
        write_text(folder / "record.json", json.dumps(record, indent=1, ensure_ascii=False) + "\n")
        write_provenance(make_folder(folder / "tables"), provenance)
        write_tables(folder / "tables", tables, provenance, dict.fromkeys(tables, TableInfo(question="studies")))
    except OSError as error:
        raise OutputError(f"cannot write to {folder}: {error.strerror or error}; give -o another folder") from error


def tables_of(record: Record) -> dict[str, pd.DataFrame]:
    """The tables of a record for the report, without empty ones."""
    means = pd.DataFrame([{name: value for name, value in row.items() if name != "values"} for row in record["means"]])
    claims = [{"claim": claim["name"], "bound": claim["bound"], **case} for claim in record["claims"] for case in claim["cases"]]
    tables = {
        "study.means": means.rename(columns={"mean": "value"}),
        "study.published": pd.DataFrame([{"what": what_of(row), **row} for row in record["published"]]),
        "study.claims": pd.DataFrame(claims),
    }
    return {name: frame for name, frame in tables.items() if not frame.empty}


def what_of(row: Mapping[str, Any]) -> str:
    """The keys of a published figure, in words."""
    return words({name: value for name, value in row.items() if name not in NUMBERS})
