"""Running: every condition with every seed, in parallel processes; finished runs are kept, so that a study can resume."""

import hashlib
import json
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from math import inf
from pathlib import Path
from typing import Any

from conoscope import __version__
from conoscope.common.errors import ConoscopeError, MeasureError, OutputError
from conoscope.common.sealing import read_sealed, sealed
from conoscope.common.terminal import Progress
from conoscope.common.versions import versions
from conoscope.common.writing import make_folder, write_text
from conoscope.studies.base import Condition, Study
from conoscope.studies.checkpoints import without_folders
from conoscope.studies.made import Made, Place
from conoscope.studies.rows import SHARED, numbered, without
from conoscope.studies.workers import Pace, do_all

FINE_TUNING = 10
"""Cost of fine-tuning, in layers of a small model."""


@dataclass(frozen=True)
class Job:
    """One run to do: a condition of a study with a seed, and the file for its rows."""

    study: str
    condition: Condition
    seed: int
    place: Place
    path: Path

    @property
    def corpus(self) -> str:
        """The corpus that the run reads."""
        return self.condition.corpus

    @property
    def cost(self) -> int:
        """Rough relative duration: the longest runs start first, so that none of them is left to run alone at the end."""
        training = self.condition.training
        return 1 if training is None else FINE_TUNING if training.checkpoint is not None else training.layers or 1

    def __str__(self) -> str:
        return ", ".join((self.study, *(f"{name} {value}" for name, value in self.condition.keys.items()), f"seed {self.seed}"))


def jobs_of(study: Study, conditions: Iterable[Condition], seeds: int, place: Place, out: Path) -> list[Job]:
    """The runs of a study, each with its own file in `out/runs`."""
    folder = make_folder(out / "runs")
    return [
        Job(study.name, condition, seed, place, folder / f"{_digest(study.name, condition, seed, place.limit)}.json")
        for condition in conditions
        for seed in range(seeds)
    ]


def _digest(study: str, condition: Condition, seed: int, limit: int | None) -> str:
    """Digest that identifies a run: everything that its numbers depend on except the files of data, vectors and checkpoints, of
    which only names count, so that runs from another machine are recognised here. Digests of what was read are kept with each
    run, and runs of other texts are refused beside it (sources.py)."""
    content = json.dumps([study, without_folders(asdict(condition)), seed, limit, __version__], sort_keys=True)
    return hashlib.blake2b(content.encode(), digest_size=8).hexdigest()


def run_all(jobs: Sequence[Job], processes: int, progress: bool = False, minutes: float | None = None) -> list[str]:
    """Do the runs that are not finished yet; return a line for each that failed. The others continue.

    After `minutes`, no further run starts.
    """
    todo = [job for job in jobs if kept(job) is None]
    processes, failed = min(processes, len(todo)), []
    pace, until = Pace(todo, processes), time.monotonic() + (inf if minutes is None else 60 * minutes)
    with Progress(len(jobs), progress, "made", "run") as shown:
        shown.advance(len(jobs) - len(todo))
        for job, failure, seconds in do_all(todo, run, processes, until):
            failed += [] if failure is None else [failure]
            shown.advance(1, note=pace.finished(job, seconds))
    if failed and len(failed) == len(jobs):
        raise MeasureError(f"no run of {len(jobs)} came to an end; the first: {failed[0]}")
    return failed


def run(job: Job) -> str | None:
    """Do one run and store its rows; return None, or a line that says why it failed."""
    from conoscope.studies import STUDIES

    began, made = time.time(), Made(job.condition, job.seed, job.place)
    try:
        rows = list(STUDIES[job.study].read(made))
        _keep(job, rows, began, made)
    except ConoscopeError as error:
        return f"{job}: {error}"
    except Exception as error:  # one failing run must not stop the others
        return f"{job}: {type(error).__name__}: {' '.join(str(error).split())}"
    finally:
        made.close()
    return None


def _keep(job: Job, rows: list[dict[str, Any]], began: float, made: Made) -> None:
    parts = {"parts": job.condition.parts} if job.condition.in_parts else {}
    content = {
        "study": job.study,
        "run": job.path.stem,
        "keys": dict(job.condition.keys),
        "seed": job.seed,
        **parts,
        "rows": rows,
        "examples": made.texts.size,
        "began": round(began, 1),
        "ended": round(time.time(), 1),
        **made.facts,
        "machine": {"device": made.device, "versions": versions()},
    }
    write_text(job.path, sealed(content, nan=False))


def adopt(jobs: Sequence[Job], record: Mapping[str, Any]) -> int:
    """Keep those runs of a record that are to be done, as if they had been made here; return how many."""
    wanted = {job.path.stem: job for job in jobs if kept(job) is None}
    found: dict[int, list[dict[str, Any]]] = {
        number: [] for number, made in enumerate(record["runs"]) if made.get("run") in wanted
    }
    for place, row in numbered(record):
        if place in found:
            made = record["runs"][place]
            found[place].append(without(row, (*made["keys"], "seed")))
    # A run of which a row cannot be told from those of others is made again.
    whole = {place: rows for place, rows in found.items() if len(rows) == record["runs"][place]["rows"]}
    for place, rows in whole.items():
        made = record["runs"][place]
        job, ended = wanted[made["run"]], round(made["began"] + made["seconds"], 1)
        facts = {name: record[f"{name}s"][made[name]] for name in SHARED if name in made}
        content = {**made, "study": job.study, "rows": rows, "ended": ended, **facts}
        write_text(job.path, sealed(content, nan=False))
    return len(whole)


def kept(job: Job) -> dict[str, Any] | None:
    """The stored rows and details of a finished run; None if the file is missing or not whole: it is made again."""
    try:
        content: dict[str, Any] = read_sealed(job.path)
        return content if isinstance(content["rows"], list) and content["seed"] == job.seed else None
    except (OSError, ValueError, LookupError, TypeError, OutputError):
        return None
