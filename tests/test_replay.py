"""Batches that are replayed give the tables of batches that run one operation after the other.

A tape stands for a CUDA graph: it runs the recorded operations again on the same tensors, whatever Python says meanwhile.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

from architectures import tiny
from conoscope.capture.batch import Batch
from conoscope.capture.loading import LoadedModel
from conoscope.measures import CATALOGUE, request
from conoscope.measures.tally import Tally
from conoscope.measuring.later import Later
from conoscope.measuring.replay import Program, Replays
from conoscope.measuring.running import Runner
from conoscope.results.from_sums import tables_of
from conoscope.sums import stacked
from textbook import NAMES, of_kinds

CPU = torch.device("cpu")
MEASURES = [name for name, measure in CATALOGUE.items() if not measure.on_request]


class Tape(TorchDispatchMode):
    """Records operations, and undoes what they did to tensors that were there before; `replay` runs them again, and writes what
    they return where it was."""

    def __init__(self, device: torch.device, beside: object) -> None:
        super().__init__()
        self.operations: list[tuple[Callable[..., Any], Any, Any, Any]] = []
        self._made: dict[int, Any] = {}
        self._before: dict[int, tuple[Tensor, Tensor]] = {}

    @contextmanager
    def recording(self) -> Iterator[None]:
        with self:
            yield
        with torch.inference_mode():
            for tensor, before in self._before.values():
                tensor.copy_(before)

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        if func._schema.is_mutable:
            for tensor in (x for x in (*args, *kwargs.values()) if isinstance(x, Tensor)):
                whole = tensor.untyped_storage()
                if whole._cdata not in self._made and whole._cdata not in self._before:
                    flat = torch.empty(0, dtype=tensor.dtype).set_(whole)
                    self._before[whole._cdata] = flat, flat.clone()
        returned = func(*args, **kwargs)
        given = {x.untyped_storage()._cdata for x in args if isinstance(x, Tensor)}
        made = {x.untyped_storage()._cdata: x.untyped_storage() for x in tensors_of(returned)}
        if func._schema.is_mutable or not made.keys() <= given:  # not for views
            self._made |= made if not func._schema.is_mutable else {}
            self.operations.append((func, args, kwargs, returned))
        return returned

    def replay(self) -> None:
        with torch.inference_mode():
            for func, args, kwargs, before in self.operations:
                again = func(*args, **kwargs)
                if not func._schema.is_mutable:
                    for one, other in zip(tensors_of(before), tensors_of(again), strict=True):
                        one.copy_(other)


def tensors_of(returned: Any) -> list[Tensor]:
    several = returned if isinstance(returned, tuple | list) else (returned,)
    return [x for x in several if isinstance(x, Tensor)]


def batches(lengths: tuple[int, ...] = (24, 22, 27, 25), count: int = 12) -> list[Batch]:
    found = []
    for number in range(count):
        batch = of_kinds(lengths, extra=2 * (number % 2))
        ids = tuple(f"{number} {row}" for row in range(len(lengths)))
        label = torch.tensor([(row + number) % 3 for row in range(len(lengths))])
        found.append(replace(batch, ids=ids, label=label, classes=3, place=batch.place + len(lengths) * number))
    return found


def measured(
    name: str, some: list[Batch], replays: bool, window: int = 4, settle: int | None = None
) -> tuple[dict[str, pd.DataFrame], Replays | None]:
    tally = Tally.for_needs(need for measure in MEASURES for need in request(measure).needs())
    with Runner(LoadedModel(tiny(name, torch.float64), None, name, ()), tally) as runner:
        if replays:
            runner._later, runner._replays = Later(tally), Replays(tally, CPU, runner._collected, Tape)
        for begin in range(0, len(some), window):
            runner.plan(some[begin : begin + window])
            assert all(bool(outcome.sound.all()) for outcome in runner(some[begin : begin + window]))
            if settle == begin:
                runner.complete()
                tally.settle()
        runner.complete()
        tables = {
            key: frame for asked in MEASURES for key, frame in tables_of(request(asked), tally, ("a", "b", "c"), NAMES).items()
        }
        return tables, runner._replays


def assert_equal(found: dict[str, pd.DataFrame], expected: dict[str, pd.DataFrame]) -> None:
    assert found.keys() == expected.keys()
    for table, frame in expected.items():
        assert list(frame.columns) == list(found[table].columns)
        for column in frame.columns:
            one, other = found[table][column], frame[column]
            if other.dtype.kind == "f":
                np.testing.assert_allclose(
                    one.to_numpy(float), other.to_numpy(float), rtol=1e-9, atol=1e-9, err_msg=f"{table} {column}"
                )
            else:
                assert one.equals(other), f"{table} {column}"


@pytest.fixture
def runs(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The number of texts of each batch that was replayed; sums stay where they are, as on a GPU."""
    monkeypatch.setattr(stacked, "HELD", 0)
    replayed: list[int] = []
    run = Program.run

    def counted(self: Program, bytes: Tensor, host: Batch) -> Any:
        replayed.append(len(host.ids))
        return run(self, bytes, host)

    monkeypatch.setattr(Program, "run", counted)
    return replayed


@pytest.mark.parametrize("name", ["bert", "gpt2", "llama", "modernbert"])
def test_replayed_batches_give_the_same_tables(name: str, runs: list[int]) -> None:
    some = batches()
    found, replays = measured(name, some, True)
    assert replays is not None
    assert replays.reason is None
    assert len(runs) >= 6
    expected, _ = measured(name, batches(), False)
    assert_equal(found, expected)
