"""Records: the results of a study, as JSON and as tables."""

import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pandas as pd

from conoscope.common.errors import MeasureError, OutputError
from conoscope.common.sealing import read_sealed, sealed
from conoscope.common.writing import as_output_error, make_folder, write_text
from conoscope.results.store import TableInfo, write_provenance, write_tables
from conoscope.studies.base import Study
from conoscope.studies.contrasts import words
from conoscope.studies.judging import OURS, averaged
from conoscope.studies.rejudging import Record, judge_again
from conoscope.studies.rows import SHARED, plain, records_of
from conoscope.studies.shown_heads import head_lengths, head_maps
from conoscope.studies.summaries import cones

NUMBERS = ("published", "tag", *OURS, "gated", *(f"all_{name}" for name in OURS))
"""Columns of a published figure that are not its keys."""
NEEDED = (
    "study", "title", "source", "differs", "published", "claims", "means", "runs", "failed", "quick",
    "command", "commit", "seeds", "devices", "versions", "seconds",
)  # fmt: skip


def recorded(study: Study, runs: Sequence[Mapping[str, Any]], failed: Sequence[str], how: Mapping[str, Any]) -> Record:
    """The record of the finished runs of a study; `how` has the options of the run."""
    if not runs:
        raise MeasureError(f"no run of {study.name} is finished; give the same command again, with more time")
    means = averaged(pd.DataFrame([{**run["keys"], "seed": run["seed"], **row} for run in runs for row in run["rows"]]))
    shared, numbers = _shared(runs)
    record = {
        "study": study.name,
        "title": study.title,
        "source": study.source,
        "differs": list(study.differs),
        "command": _command(study.name, runs, how),
        "commit": commit(),
        **how,
        "seeds": sorted({run["seed"] for run in runs}),
        "devices": sorted({run["machine"]["device"] for run in runs}),
        "versions": runs[0]["machine"]["versions"],
        "seconds": round(_span([(run["began"], run["ended"]) for run in runs]), 1),
        **shared,
        "runs": [_run(run, mine) for run, mine in zip(runs, numbers, strict=True)],
        "failed": list(failed),
        "means": records_of(means),
    }
    return judge_again(record, study)


def _run(run: Mapping[str, Any], numbers: Mapping[str, int]) -> dict[str, Any]:
    there = {name: run[name] for name in ("run", "seed", "parts", "examples", "accuracy", "majority", "began") if name in run}
    seconds = round(run["ended"] - run["began"], 1)
    return {"keys": plain(run["keys"]), **there, "seconds": seconds, "rows": len(run["rows"]), **numbers}


def _shared(runs: Sequence[Mapping[str, Any]]) -> tuple[dict[str, list[Any]], list[dict[str, int]]]:
    """The lists of what several runs share, without repetitions, and the numbers of each run in them."""
    lists: dict[str, list[Any]] = {f"{name}s": [] for name in SHARED}
    numbers: list[dict[str, int]] = []
    for run in runs:
        mine = {}
        for name in SHARED:
            known = lists[f"{name}s"]
            if run[name] not in known:
                known.append(run[name])
            mine[name] = known.index(run[name])
        numbers.append(mine)
    return lists, numbers


def _command(name: str, runs: Sequence[Mapping[str, Any]], how: Mapping[str, Any]) -> str:
    """The command that reproduces the same numbers on any machine."""
    options = [f" --{option} {how[option]}" for option in ("limit", "model", "vectors") if how.get(option)]
    quick = " --quick" if how["quick"] else ""
    return f"conoscope reproduce {name} --seeds {len({run['seed'] for run in runs})}{''.join(options)}{quick}"


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
    """The record in a file, judged again by the present rules and claims."""
    try:
        record: Record = read_sealed(Path(path))
        if missing := [name for name in NEEDED if name not in record]:
            raise ValueError(f"it has no {missing[0]!r}")
    except (OSError, ValueError, TypeError) as error:
        raise OutputError(f"no record can be read from {path}: {error}; expected record.json of conoscope reproduce") from error
    return judge_again(record)


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
    with as_output_error(folder):
        write_text(folder / "record.json", sealed(record, 1))
        write_provenance(make_folder(folder / "tables"), provenance)
        write_tables(folder / "tables", tables, provenance, dict.fromkeys(tables, TableInfo(question="studies")))


def tables_of(record: Record) -> dict[str, pd.DataFrame]:
    """The tables of a record for the report, without empty ones."""
    means = pd.DataFrame([{name: value for name, value in row.items() if name != "values"} for row in record["means"]])
    claims = [{"claim": claim["name"], "bound": claim["bound"], **case} for claim in record["claims"] for case in claim["cases"]]
    tables = {
        "study.means": means.rename(columns={"mean": "value"}),
        "study.published": pd.DataFrame([{"what": what_of(row), **row} for row in record["published"]]),
        "study.claims": pd.DataFrame(claims),
        "study.cones": cones(record),
        "study.head_maps": head_maps(record),
        "study.head_lengths": head_lengths(record),
    }
    return {name: frame for name, frame in tables.items() if not frame.empty}


def what_of(row: Mapping[str, Any]) -> str:
    """The keys of a published figure, in words."""
    return words({name: value for name, value in row.items() if name not in NUMBERS})
