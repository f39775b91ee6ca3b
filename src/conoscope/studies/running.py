"""Running: every condition with every seed, in parallel processes; finished runs are kept, so that a study can resume."""

import hashlib
import json
import multiprocessing
import time
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import Future, ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from dataclasses import asdict, dataclass
from pathlib import Path
from threading import Event
from typing import Any

from conoscope import __version__
from conoscope.common.errors import ConoscopeError, MeasureError
from conoscope.common.terminal import Progress
from conoscope.common.versions import versions
from conoscope.common.writing import make_folder, write_text
from conoscope.studies.base import Condition, Study
from conoscope.studies.made import Made, Place

FINE_TUNING = 10
"""Cost of fine-tuning, in layers of a small model."""
_STOPPED = Event()


@dataclass(frozen=True)
class Job:
    """One run to do: a condition of a study with a seed, and the file for its rows."""

    study: str
    condition: Condition
    seed: int
    place: Place
    path: Path

    @property
    def cost(self) -> int:
        """Rough relative duration: the longest runs start first, so that none of them is left to run alone at the end."""
        training = self.condition.training
        return 0 if training is None else FINE_TUNING if training.checkpoint is not None else training.layers or 1

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
    """Digest that identifies a run: everything that its numbers depend on except the files of data and checkpoints, so that runs
    from another machine are recognised here. For other files, use another folder."""
    content = json.dumps([study, asdict(condition), seed, limit, __version__], sort_keys=True)
    return hashlib.blake2b(content.encode(), digest_size=8).hexdigest()


def run_all(jobs: Sequence[Job], processes: int, progress: bool = False) -> list[str]:
    """Do the runs that are not finished yet; return a line for each that failed. The others continue."""
    todo = sorted((job for job in jobs if kept(job) is None), key=lambda job: -job.cost)
    failed = []
    with Progress(len(jobs), progress, "made", "run") as shown:
        shown.advance(len(jobs) - len(todo))
        for failure in _in_parallel(todo, min(processes, len(todo))):
            failed += [] if failure is None else [failure]
            shown.advance(1)
    if failed and len(failed) == len(jobs):
        raise MeasureError(f"no run of {len(jobs)} came to an end; the first: {failed[0]}")
    return failed


def _in_parallel(todo: Sequence[Job], processes: int) -> Iterator[str | None]:
    if processes < 2:
        yield from map(run, todo)
        return
    # Spawn, not fork: torch and CUDA do not survive a fork.
    pool = ProcessPoolExecutor(processes, multiprocessing.get_context("spawn"), _prepare)
    try:
        futures: list[Future[str | None]] = [pool.submit(_run_in_pool, job) for job in todo]
        for done in as_completed(futures):
            yield done.result()
    except BrokenProcessPool as error:
        raise MeasureError(
            "a run was killed, perhaps because memory ran out; give the same command again, with fewer --jobs"
        ) from error
    finally:
        pool.shutdown(wait=True, cancel_futures=True)


def _prepare() -> None:
    """Set up a worker process: one thread, and no messages of transformers."""
    import torch
    from transformers.utils import logging

    torch.set_num_threads(1)
    logging.set_verbosity_error()
    logging.disable_progress_bar()


def _run_in_pool(job: Job) -> str | None:
    """As `run`; after an interrupt, the process starts no further run, even if one is already queued."""
    if _STOPPED.is_set():
        return None
    try:
        return run(job)
    except KeyboardInterrupt:
        _STOPPED.set()
        raise


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
    content = {
        "study": job.study,
        "keys": dict(job.condition.keys),
        "seed": job.seed,
        "rows": rows,
        "examples": made.texts.size,
        "began": round(began, 1),
        "ended": round(time.time(), 1),
        "device": made.device,
        "versions": versions(),
    }
    write_text(job.path, json.dumps(content, allow_nan=False) + "\n")


def kept(job: Job) -> dict[str, Any] | None:
    """The stored rows and details of a finished run; None if the file is missing or incomplete."""
    try:
        content: dict[str, Any] = json.loads(job.path.read_text(encoding="utf-8"))
        return content if isinstance(content["rows"], list) and content["seed"] == job.seed else None
    except (OSError, ValueError, LookupError, TypeError):
        return None
