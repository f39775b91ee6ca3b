"""Nothing within a batch asks a GPU for a number: it would wait for all that was queued.

Tensors without contents (on torch's device "meta") stand for those on a GPU: whatever depends on their contents raises. With a
GPU, test_gpu.py shows the same with torch's own check.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode

import conoscope.capture
from architectures import tiny
from conoscope.capture import fused
from conoscope.capture.batch import Batch
from conoscope.capture.loading import LoadedModel
from conoscope.capture.trace import Trace
from conoscope.capture.ways import Choice
from conoscope.measures import CATALOGUE, request
from conoscope.measures.tally import Tally
from conoscope.measuring.running import Runner
from conoscope.quantities.base import REDUCTIONS
from conoscope.sums.buffer import BATCHES
from textbook import of_kinds

GPU = torch.device("meta")


class Gpu(TorchFunctionMode):
    """Mode in which copies to the CPU's memory, which a GPU makes while the CPU goes on, hold zeros."""

    def __torch_function__(self, func: Callable[..., Any], types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func is Tensor.to and args[0].device == GPU and "cpu" in args[1:]:
            assert (kwargs or {}).get("non_blocking"), "a copy for which the CPU waits"
            return torch.zeros(args[0].shape, dtype=args[0].dtype)
        return func(*args, **(kwargs or {}))


class Event:
    """A torch.cuda.Event that never comes."""

    def record(self) -> None: ...

    def query(self) -> bool:
        return False


class Kernels:
    """Kernels that do nothing."""

    def __getattr__(self, name: str) -> Any:
        return self

    def __getitem__(self, grid: Any) -> Callable[..., None]:
        return lambda *given, **named: None


@contextmanager
def a_gpu(monkeypatch: pytest.MonkeyPatch, kernels: bool) -> Iterator[None]:
    monkeypatch.setattr(fused, "runs_on", lambda device, dtype: kernels and device == GPU)
    for module in ("attention_kernels", "vector_kernels"):
        monkeypatch.setattr(conoscope.capture, module, Kernels(), raising=False)
    monkeypatch.setattr(torch.cuda, "Event", Event)
    with Gpu():
        yield


def batches() -> Iterator[Batch]:
    for number in range(BATCHES + 3):
        batch = of_kinds((24, 9, 17, 5), extra=2 * (number % 2))
        ids = tuple(f"{number} {row}" for row in range(4))
        yield replace(batch, ids=ids, label=torch.tensor([0, 1, 2, 0]), classes=3, place=batch.place + 4 * number)


def run(name: str, kernels: bool, monkeypatch: pytest.MonkeyPatch) -> Tally:
    """Batches of a model on a GPU, with the whole catalogue, but for what is computed on request only."""
    wanted = [measure for measure, described in CATALOGUE.items() if not described.on_request]
    tally = Tally.for_needs(need for measure in wanted for need in request(measure).needs())
    loaded = LoadedModel(tiny(name), None, name, ())
    with Runner(loaded, tally) as runner, a_gpu(monkeypatch, kernels):
        # The wiring was found before the first batch, and may wait.
        runner.capture.choice = Choice("fused" if kernels else "softmax", "a test")
        loaded.module.to(GPU)
        norms = (norm and replace(norm, gain=None if norm.gain is None else norm.gain.to(GPU)) for norm in runner.wiring.norms)
        runner.capture.wiring = replace(runner.wiring, norms=tuple(norms))
        several = list(batches())
        runner.plan(several)
        for batch in several:
            runner._run(batch)
    return tally


@pytest.mark.parametrize("kernels", [True, False], ids=["kernels", "torch operations"])
@pytest.mark.parametrize("name", ["bert", "gpt2", "llama", "modernbert"])
def test_nothing_in_a_batch_depends_on_what_a_gpu_holds(name: str, kernels: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    tally = run(name, kernels, monkeypatch)
    assert tally._pending
    stacks = [stack for sums in tally._stacked.values() for stack in sums.stacks]
    assert any(tensor.device == GPU for stack in stacks for tensor in stack.state.values())


def test_what_waits_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    def asking(trace: Trace, site: str) -> Tensor | None:
        return None if getattr(trace, site) is None or float(trace.norms(site).amax()) > 1e9 else trace.norms(site)

    monkeypatch.setitem(REDUCTIONS, "lengths", replace(REDUCTIONS["lengths"], compute=asking))
    with pytest.raises(RuntimeError, match="meta tensors"):
        run("bert", True, monkeypatch)
