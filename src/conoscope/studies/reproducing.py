"""reproduce(): run a study, judge it, write its tables and its record."""

import json
import subprocess
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from math import isnan
from os import cpu_count
from pathlib import Path
from typing import Any

import pandas as pd

from conoscope.errors import MeasureError, OutputError, one_of
from conoscope.provenance import command
from conoscope.result import make_folder, write_provenance, write_tables
from conoscope.studies import STUDIES
from conoscope.studies.base import QUICK_TEXTS, Condition, Study
from conoscope.studies.checkpoints import with_checkpoint, without_checkpoint
from conoscope.studies.judging import averaged, compared, judged
from conoscope.studies.made import Place, least, on_bistro_where_absent, require_data
from conoscope.studies.running import Job, jobs_of, kept, run_all

Record = dict[str, Any]
"""All that is told of a study, as it is written to JSON."""
QUICK_SEEDS = 2


@dataclass(frozen=True)
class Reproducing:
    """How to run a study; `seeds` are by default as many as the study asks for, `jobs` as many as there are cores.

    `model` is the checkpoint that is fine-tuned or taken as it is where a study says MiniLM.
    """

    seeds: int | None = None
    limit: int | None = None
    device: str = "auto"
    jobs: int | None = None
    quick: bool = False
    data_dir: str | None = None
    model: str | None = None
    keep_models: bool = False
    progress: bool = False


def study_of(name: str) -> Study:
    """A study by name."""
    if name not in STUDIES:
        raise MeasureError(f"no study {name!r}; known studies: {one_of(STUDIES)}")
    return STUDIES[name]


def reproduce(name: str, out: str | Path, options: Reproducing | None = None) -> Record:
    """Run a study again, or go on with it, in the folder `out`; its record, also written to `out/record.json`."""
    study, chosen = study_of(name), options or Reproducing()
    conditions, where = _conditions(study, chosen), make_folder(Path(out))
    place = Place(
        chosen.data_dir,
        chosen.device,
        least(chosen.limit, QUICK_TEXTS if chosen.quick else None),
        str(where / "models") if chosen.keep_models else None,
    )
    jobs = jobs_of(study, conditions, chosen.seeds or (QUICK_SEEDS if chosen.quick else study.seeds), place, where)
    failed = run_all(jobs, chosen.jobs or cpu_count() or 1, chosen.progress)
    record = recorded(study, jobs, failed, chosen)
    _write(where, record)
    return record


def _conditions(study: Study, chosen: Reproducing) -> Sequence[Condition]:
    if chosen.quick:
        some = without_checkpoint([condition.smaller() for condition in study.conditions if condition.quick], chosen.model)
        return list(on_bistro_where_absent(with_checkpoint(some, chosen.model), chosen.data_dir))
    for condition in study.conditions:
        require_data(condition, chosen.data_dir)
    return list(with_checkpoint(study.conditions, chosen.model))


def recorded(study: Study, jobs: Iterable[Job], failed: Sequence[str], chosen: Reproducing) -> Record:
    """What the finished runs of a study say."""
    runs = [found for job in jobs if (found := kept(job)) is not None]
    rows = pd.DataFrame([{**run["keys"], "seed": run["seed"], **row} for run in runs for row in run["rows"]])
    means = averaged(rows)
    return {
        "study": study.name,
        "title": study.title,
        "source": study.source,
        "differs": list(study.differs),
        "command": command(),
        "commit": commit(),
        "quick": chosen.quick,
        "limit": chosen.limit,
        "seeds": sorted({run["seed"] for run in runs}),
        "devices": sorted({run["device"] for run in runs}),
        "versions": runs[0]["versions"],
        "seconds": round(_span([(run["began"], run["ended"]) for run in runs]), 1),
        "runs": [{**run["keys"], "seed": run["seed"], "examples": run["examples"],
                  "seconds": round(run["ended"] - run["began"], 1)} for run in runs],
        "failed": list(failed),
        "published": _records(compared(means, study.published)),
        "claims": [asdict(judged(claim, rows)) for claim in study.claims],
        "means": _records(means),
    }  # fmt: skip


def _records(frame: pd.DataFrame) -> list[dict[str, Any]]:
    """Rows without what they lack, numbers of whole things whole."""
    return [{str(name): _plain(value) for name, value in row.items() if not _missing(value)} for row in frame.to_dict("records")]


def _missing(value: Any) -> bool:
    return value is None or (isinstance(value, float) and isnan(value))


def _plain(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {name: _plain(inner) for name, inner in value.items()}
    return value if not isinstance(value, float) else int(value) if value.is_integer() else float(f"{value:.5g}")


def _span(times: list[tuple[float, float]]) -> float:
    """How long at least one run was being made."""
    total, until = 0.0, 0.0
    for began, ended in sorted(times):
        total += max(0.0, ended - max(began, until))
        until = max(until, ended)
    return total


def commit() -> str | None:
    """Which commit this is of, where it is run from a checkout."""
    git = ["git", "-C", str(Path(__file__).parent), "describe", "--always", "--dirty", "--abbrev=12", "--exclude=*"]
    try:
        return subprocess.run(git, capture_output=True, text=True, check=True).stdout.strip()
    except (OSError, subprocess.CalledProcessError):
        return None


def read_record(path: str | Path) -> Record:
    """A record that was written before."""
    try:
        found: Record = json.loads(Path(path).read_text())
        study_of(found["study"])
    except (OSError, ValueError, LookupError, TypeError) as error:
        raise OutputError(f"no record can be read from {path}: {error}; expected record.json of conoscope reproduce") from error
    return found


def _write(folder: Path, record: Record) -> None:
    """record.json, and a folder of tables that conoscope report takes."""
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
        (folder / "record.json").write_text(json.dumps(record, indent=1, ensure_ascii=False) + "\n")
        write_provenance(make_folder(folder / "tables"), provenance)
        write_tables(folder / "tables", tables, provenance)
    except OSError as error:
        raise OutputError(f"cannot write to {folder}: {error.strerror or error}; give -o another folder") from error


def tables_of(record: Record) -> dict[str, pd.DataFrame]:
    """The tables of a record, as the report shows them; those that have rows."""
    means = pd.DataFrame([{name: value for name, value in row.items() if name != "values"} for row in record["means"]])
    claims = [{"claim": claim["name"], "bound": claim["bound"], **case} for claim in record["claims"] for case in claim["cases"]]
    found = {
        "study.means": means.rename(columns={"mean": "value"}),
        "study.published": pd.DataFrame(record["published"]),
        "study.claims": pd.DataFrame(claims),
    }
    return {name: frame for name, frame in found.items() if not frame.empty}
