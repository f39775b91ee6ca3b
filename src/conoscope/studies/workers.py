"""Workers: processes that do one run at a time, each preferably on texts that it holds already."""

import multiprocessing
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from typing import Protocol, TypeVar, runtime_checkable

from conoscope.common.errors import MeasureError


@runtime_checkable
class Costly(Protocol):
    """A run: what its texts are called, and how long it takes, roughly, beside others."""

    @property
    def corpus(self) -> str:
        """The corpus that the run needs."""

    @property
    def cost(self) -> int:
        """Rough relative duration."""


Run = TypeVar("Run", bound=Costly)
Answer = TypeVar("Answer")


def next_run(waiting: Sequence[Run], held: set[str], busy: Sequence[str]) -> Run:
    """The run that a worker should do next: the longest on texts that it holds; if there is none, the longest on those texts for
    which most is left to do for each worker that is busy with them."""
    own = [run for run in waiting if run.corpus in held]
    if not own:
        left, workers = Counter[str](), Counter(busy)
        for run in waiting:
            left[run.corpus] += run.cost
        corpus = max(left, key=lambda name: left[name] / (1 + workers[name]))
        own = [run for run in waiting if run.corpus == corpus]
    return max(own, key=lambda run: run.cost)


def do_all(
    runs: Sequence[Run], do: "Callable[[Run], Answer]", processes: int, until: float = float("inf")
) -> Iterator[tuple[Run, Answer, float]]:
    """Each run as it ends, with its answer and its seconds. None starts after `until`, a time of time.monotonic()."""
    yield from _in_turn(runs, do, until) if processes < 2 else _side_by_side(runs, do, processes, until)


def _in_turn(runs: Sequence[Run], do: "Callable[[Run], Answer]", until: float) -> Iterator[tuple[Run, Answer, float]]:
    waiting, held = list(runs), set[str]()
    while waiting and (began := time.monotonic()) < until:
        run = next_run(waiting, held, ())
        waiting.remove(run)
        held = {run.corpus}
        yield run, do(run), time.monotonic() - began


def _side_by_side(
    runs: Sequence[Run], do: "Callable[[Run], Answer]", processes: int, until: float
) -> Iterator[tuple[Run, Answer, float]]:
    # Spawn, not fork: torch and CUDA do not survive a fork. A pool for each worker, so that runs can be given to one of them.
    context = multiprocessing.get_context("spawn")
    pools = [ProcessPoolExecutor(1, context, _prepare) for _ in range(processes)]
    waiting, free, held = list(runs), list(range(processes)), [set[str]() for _ in pools]
    busy: dict[Future[Answer], tuple[int, Run, float]] = {}
    try:
        while waiting or busy:
            while free and waiting and time.monotonic() < until:
                worker = free.pop(0)
                run = next_run(waiting, held[worker], [other.corpus for _, other, _ in busy.values()])
                waiting.remove(run)
                held[worker].add(run.corpus)
                busy[pools[worker].submit(do, run)] = worker, run, time.monotonic()
            if not busy:
                return
            for done in wait(busy, return_when=FIRST_COMPLETED).done:
                worker, run, began = busy.pop(done)
                free.append(worker)
                yield run, done.result(), time.monotonic() - began
    except BrokenProcessPool as error:
        raise MeasureError(
            "a run was killed, perhaps because memory ran out; give the same command again, with fewer --jobs"
        ) from error
    finally:
        for pool in pools:
            pool.shutdown(wait=False, cancel_futures=True)
        for pool in pools:
            pool.shutdown(wait=True)


def _prepare() -> None:
    """Set up a worker process: one thread, and no messages of transformers."""
    import torch
    from transformers.utils import logging

    torch.set_num_threads(1)
    logging.set_verbosity_error()
    logging.disable_progress_bar()


class Pace:
    """How long the runs that are left will take, from the seconds that finished ones took for their cost."""

    def __init__(self, runs: Sequence[Costly], processes: int) -> None:
        self.left, self.count, self.processes = sum(run.cost for run in runs), len(runs), processes
        self._cost, self._seconds = 0, 0.0

    def finished(self, run: Costly, seconds: float) -> str:
        """Count a run as finished; return the time left in words, or nothing after the last."""
        self.left, self.count = self.left - run.cost, self.count - 1
        self._cost, self._seconds = self._cost + run.cost, self._seconds + seconds
        if not self.count:
            return ""
        return f"about {duration(self._seconds / self._cost * self.left / min(self.processes, self.count))} left"


def duration(seconds: float) -> str:
    """Seconds in words: 40 s, 3 min, 2 h 05 min."""
    if seconds < 60:
        return f"{seconds:.0f} s"
    minutes = round(seconds / 60)
    return f"{minutes} min" if minutes < 60 else f"{minutes // 60} h {minutes % 60:02d} min"
