"""Batches that are replayed give the tables of batches that run one operation after the other.

A tape stands in for a CUDA graph: it runs the captured operations again on the same tensors, without running any Python code.
"""

import gc
import itertools
import weakref
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from torch import Tensor, nn
from torch.utils._python_dispatch import TorchDispatchMode

from architectures import VOCABULARY, tiny
from conoscope.capture.batch import Batch
from conoscope.capture.loading import LoadedModel
from conoscope.capture.sending import Layout
from conoscope.common.errors import CaptureError
from conoscope.measures import CATALOGUE, request
from conoscope.measures import tally as tally_module
from conoscope.measures.tally import Tally
from conoscope.measuring import replay
from conoscope.measuring.capacities import ShapeCapacities
from conoscope.measuring.graphs import GraphMemory
from conoscope.measuring.module_state import ModuleState
from conoscope.measuring.postponed import Postponed
from conoscope.measuring.program import PassResult, Program
from conoscope.measuring.replay import Replays
from conoscope.measuring.running import Runner
from conoscope.quantities import reductions
from conoscope.results.from_sums import tables_of
from conoscope.sums import stacked
from conoscope.sums.drawing import Chosen
from textbook import NAMES, of_kinds

CPU = torch.device("cpu")
MEASURES = [name for name, measure in CATALOGUE.items() if not measure.on_request]


class Tape(TorchDispatchMode):
    """Captures operations, and undoes what they did to tensors that were there before; `replay` runs them again, and writes their
    results where they were."""

    def __init__(self, memory: GraphMemory) -> None:
        super().__init__()
        self.operations: list[tuple[Callable[..., Any], Any, Any, Any]] = []
        self._made: dict[int, Any] = {}
        self._before: dict[int, tuple[Tensor, Tensor]] = {}

    @contextmanager
    def capturing(self) -> Iterator[None]:
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


def batches(lengths: tuple[int, ...] = (24, 22, 27, 25), count: int = 12, left: bool = False) -> list[Batch]:
    """Batches of two widths, no two of the same tokens, names or labels."""
    found = []
    for number in range(count):
        batch = of_kinds(lengths, extra=2 * (number % 2))
        ids, real = batch.inputs["input_ids"], batch.real
        moved = torch.where(real, 5 + (ids - 5 + 17 * number) % (VOCABULARY - 5), ids)
        ids = tuple(f"{number} {row}" for row in range(len(lengths)))
        label = torch.tensor([(row + number) % 3 for row in range(len(lengths))])
        place = batch.place + len(lengths) * number
        inputs = {**batch.inputs, "input_ids": moved}
        found.append(replace(batch, inputs=inputs, ids=ids, label=label, classes=3, place=place))
    return found


def measured(
    name: str,
    some: list[Batch],
    replays: bool,
    window: int = 4,
    flush: int | None = None,
    change: Callable[[nn.Module], None] = lambda model: None,
) -> tuple[dict[str, pd.DataFrame], Replays | None]:
    tally = Tally.for_needs(need for measure in MEASURES for need in request(measure).needs())
    model = tiny(name, torch.float64)
    change(model)
    runner = Runner(LoadedModel(model, None, name, ()), tally)
    if replays:
        # As on a GPU, before the capture takes the model's attention over.
        runner.capture.waits = lambda: False  # type: ignore[method-assign]
        runner._postponed, runner._replays = Postponed(tally), Replays(tally, model, CPU, runner._collected, Tape)
    with runner:
        for begin in range(0, len(some), window):
            runner.plan(some[begin : begin + window])
            assert all(bool(outcome.finite.all()) for outcome in runner(some[begin : begin + window]))
            if flush == begin:
                runner.complete()
                tally.flush()
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
    """The number of texts of each batch that was replayed. As on a GPU, sums stay where they are, and no sentence is computed
    once more because of its numbers."""
    monkeypatch.setattr(stacked, "HELD", 0)
    monkeypatch.setattr(reductions, "CLOSE", -1.0)
    replayed: list[int] = []
    run = Program.run

    def counted(self: Program, packed: Tensor, host: Batch) -> Any:
        replayed.append(len(host.ids))
        return run(self, packed, host)

    monkeypatch.setattr(Program, "run", counted)
    return replayed


@pytest.mark.parametrize("name", ["bert", "gpt2", "llama", "modernbert"])
def test_replayed_batches_give_the_same_tables(name: str, runs: list[int]) -> None:
    found, replays = measured(name, batches(), True)
    assert replays is not None
    assert replays.reason is None
    assert len(runs) == 10  # the first of each width runs operation by operation
    expected, _ = measured(name, batches(), False)
    assert_equal(found, expected)


def test_short_texts_give_the_same_tables(runs: list[int]) -> None:
    """Of short texts fewer tokens are drawn than of long ones: batches of one shape differ in what is sent."""
    some = [batch for pair in zip(batches((24, 3, 27, 25)), batches((8, 3, 27, 1)), strict=True) for batch in pair][:16]
    some = [replace(batch, ids=tuple(f"{number}/{name}" for name in batch.ids)) for number, batch in enumerate(some)]
    found, _ = measured("bert", some, True)
    expected, _ = measured("bert", some, False)
    assert runs
    assert len(runs) < len(some) - 2
    assert_equal(found, expected)


def test_a_flush_on_the_way_changes_nothing(runs: list[int]) -> None:
    found, _ = measured("bert", batches(), True, flush=4)
    assert 4 < len(runs) < 10
    expected, _ = measured("bert", batches(), False)
    assert_equal(found, expected)


def test_samples_that_outgrow_their_capacities_are_taken_whole(runs: list[int]) -> None:
    """One batch at a time is planned for: the first takes all, later ones ever less, until capacities shrink."""
    some = batches(count=24)
    found, replays = measured("bert", [*some[8:], *some[:8]], True, window=1)
    expected, _ = measured("bert", [*some[8:], *some[:8]], False, window=1)
    assert replays is not None
    assert replays.reason is None
    assert runs
    assert_equal(found, expected)


def test_capacities_follow_what_samples_take() -> None:
    tally = Tally.for_needs(request("frequency").needs())
    (need,) = (need for need in tally.stacked if need.described.sample is not None)
    capacities, found = ShapeCapacities(tally), []
    for number, count in enumerate([900, 500, *[20] * 12, 100]):
        ids = torch.ones(10, 100, dtype=torch.long)
        batch = replace(Batch.of_ids(ids, ids.bool()), ids=tuple(f"{number} {row}" for row in range(10)))
        at = torch.arange(count)
        chosen = Chosen(at, at, at, torch.zeros(count, 64, dtype=torch.uint8), (4096, 1))
        tally.planned(batch)[need] = chosen
        assert capacities.places(batch).of(need)[:count].equal(at)
        found.append(capacities.current.of[need])
    assert found[0] == found[1] >= 900
    assert 20 <= found[12] < 100 <= found[14] < 900


@pytest.mark.parametrize("late", [False, True])
def test_a_batch_that_asks_for_more_than_was_sent_is_not_replayed(late: bool) -> None:
    """What is sent while a batch is captured would be sent again, unchanged, for every batch."""
    tally = Tally.for_needs(request("sim").needs())
    captures, inside = list[int](), list[bool]()

    class Watched(Tape):
        @contextmanager
        def capturing(self) -> Iterator[None]:
            captures.append(1)
            inside.append(True)
            with super().capturing():
                yield
            inside.clear()

    def body(moved: Batch, places: Any, take: Any) -> Any:
        key = ("late", len(captures)) if late and inside else "known"
        return PassResult(moved.drawn(key, lambda host: torch.ones(len(host.ids), dtype=torch.bool)), None)

    replays = Replays(tally, nn.Module(), CPU, body, Watched)
    some = [replace(batch, host=replace(batch)) for batch in batches(count=12)[::2]]
    for batch in some:
        assert bool(replays(batch).finite.all())
    assert captures, "batches of one shape came again"
    assert any(shape.programs for shape in replays._shapes.values()) is not late
    assert ("ask for what was not sent" in (replays.reason or "")) is late


def keeps_a_table(holder: str) -> Callable[[nn.Module], None]:
    """Keep a table of the length of the last batch, as some models do; the one before loses its contents."""

    def change(model: nn.Module) -> None:
        module = model.bert.embeddings
        if holder == "buffer":
            module.register_buffer("table", None)
        elif holder == "object":
            module.kept = SimpleNamespace(tables=deque([None]))
        elif holder in ("list", "dictionary"):
            module.table = [None] if holder == "list" else {"last": {0: None}}

        def add(module: nn.Module, given: Any, returned: Tensor) -> Tensor:
            holders: dict[str, Callable[[], Any]] = {
                "list": lambda: module.table,
                "dictionary": lambda: module.table["last"],
                "object": lambda: module.kept.tables,
            }
            held = holders.get(holder, lambda: None)()
            table = getattr(module, "table", None) if held is None else held[0]
            if table is None or len(table) != returned.shape[1]:
                if table is not None:
                    table.fill_(torch.nan)
                table = torch.zeros(returned.shape[1], dtype=returned.dtype)
                if held is None:
                    module.table = table
                else:
                    held[0] = table
            return returned + table[None, :, None]

        module.register_forward_hook(add)

    return change


@pytest.mark.parametrize("holder", ["attribute", "buffer", "list", "dictionary", "object"])
def test_a_program_does_not_outlive_the_tensors_that_a_model_keeps(holder: str, runs: list[int]) -> None:
    even, odd = batches(count=16)[::2], batches(count=16)[1::2]
    some = [*even[:4], *odd[:4], *even[4:], *odd[4:]]
    found, replays = measured("bert", some, True, change=keeps_a_table(holder))
    assert replays is not None
    assert replays.reason is None
    assert len(runs) >= 8, "the first of each run of one width is not replayed"
    expected, _ = measured("bert", some, False, change=keeps_a_table(holder))
    assert_equal(found, expected)


def writes_into_a_table(model: nn.Module) -> None:
    """Write a table of the length of the last batch into the same tensor, where the length is another one; beyond it, it has no
    contents."""
    module = model.bert.embeddings
    module.register_buffer("table", torch.zeros(64, dtype=torch.float64))
    module.length = None

    def add(module: nn.Module, given: Any, returned: Tensor) -> Tensor:
        if module.length != returned.shape[1]:
            module.length = returned.shape[1]
            module.table.fill_(torch.nan)
            module.table[: module.length] = torch.arange(module.length).sin()
        return returned + module.table[: returned.shape[1], None]

    module.register_forward_hook(add)


def test_a_program_does_not_outlive_what_stood_in_a_tensor(runs: list[int]) -> None:
    even, odd = batches(count=16)[::2], batches(count=16)[1::2]
    some = [*odd[:4], *even[:4], *odd[4:], *even[4:]]  # the wider ones first
    found, _ = measured("bert", some, True, change=writes_into_a_table)
    expected, _ = measured("bert", some, False, change=writes_into_a_table)
    assert runs
    assert_equal(found, expected)


def test_the_state_of_a_module_is_restored() -> None:
    module = nn.Sequential(nn.Linear(2, 2), nn.BatchNorm1d(2))
    module[0].table, module[0].tables, module[1].by_name = torch.ones(2), [torch.ones(1)], {"a": [torch.ones(1)]}
    module[0].tables.append(module[0].tables)  # type: ignore[arg-type]
    module[1].kept = SimpleNamespace(queue=deque([torch.ones(1)]), names={"a"})
    tensors = module[0].table, module[0].tables[0], module[1].by_name["a"][0], module[1].running_mean
    state = ModuleState.of(module)
    assert state.holds_the_same_tensors(ModuleState.of(module))
    module[0].table, module[0].tables[0], module[1].by_name["a"][0], module[1].running_mean = (x.clone() for x in tensors)
    module[0].new, module[1].by_name["b"] = torch.ones(1), torch.ones(1)
    module[1].kept.queue.append(torch.ones(1))
    module[1].kept.names.add("b")
    assert not state.holds_the_same_tensors(ModuleState.of(module))
    state.restore()
    assert state.holds_the_same_tensors(ModuleState.of(module))
    found = module[0].table, module[0].tables[0], module[1].by_name["a"][0], module[1].running_mean
    assert all(one is other for one, other in zip(found, tensors, strict=True))
    assert not hasattr(module[0], "new")
    assert module[1].by_name.keys() == {"a"}
    assert len(module[1].kept.queue) == len(module[1].kept.names) == 1
    assert len(module[0].tables) == 2


def test_what_is_written_into_a_tensor_is_noticed() -> None:
    module = nn.BatchNorm1d(2)
    state = ModuleState.of(module)
    module.running_mean.add_(1)
    assert not state.holds_the_same_tensors(ModuleState.of(module))
    with torch.inference_mode():
        module.cached = torch.ones(1)
    assert ModuleState.of(module).holds_the_same_tensors(ModuleState.of(module)), "torch counts no writes to these"


def test_constants_are_not_computed_while_a_batch_is_captured(monkeypatch: pytest.MonkeyPatch) -> None:
    tally = Tally.for_needs(request("sim").needs())
    assert tally.constant("early", lambda: torch.ones(1)) is not None
    monkeypatch.setattr(tally_module, "is_capturing", lambda: True)
    assert tally.constant("early", lambda: None) is not None
    with pytest.raises(AssertionError, match="has no contents"):
        tally.constant("late", lambda: torch.ones(1))


def test_too_many_programs_are_not_thrashed(runs: list[int], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(replay, "MOST", 1)
    captured: list[Any] = []
    capture = Tape.capturing
    monkeypatch.setattr(Tape, "capturing", lambda self: (captured.append(self), capture(self))[1])
    found, _ = measured("bert", batches(), True)
    assert len(captured) == 1
    assert len(runs) == 5
    monkeypatch.setattr(replay, "LONG", 1)
    measured("bert", batches(), True)
    assert len(captured) > 2, "one that has not run for long gives way"
    assert_equal(found, measured("bert", batches(), False)[0])


def test_a_capture_that_fails_says_why_and_the_batch_runs(runs: list[int], monkeypatch: pytest.MonkeyPatch) -> None:
    @contextmanager
    def refuses(self: Tape) -> Iterator[None]:
        raise RuntimeError("operation not permitted when stream is capturing\nmore")
        yield

    monkeypatch.setattr(Tape, "capturing", refuses)
    found, replays = measured("bert", batches(), True)
    assert replays is not None
    assert (
        replays.reason
        == "batches cannot be recorded and replayed (RuntimeError: operation not permitted when stream is capturing)"
    )
    assert not runs
    assert_equal(found, measured("bert", batches(), False)[0])


@pytest.mark.parametrize("raised", [torch.OutOfMemoryError, CaptureError])
def test_without_memory_for_a_program_nothing_is_captured_any_more(
    raised: type[Exception], runs: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    """One program runs before the memory is short: it is forgotten, too, since its memory serves nothing else."""
    captured, capture, held = list[Tape](), Tape.capturing, list[Any]()

    @contextmanager
    def short(self: Tape) -> Iterator[None]:
        captured.append(self)
        with capture(self):
            yield
            if len(captured) == 2:
                large = torch.ones(1000)
                held.append(weakref.ref(large))
                error = torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 20 MiB")
                raise error if raised is torch.OutOfMemoryError else raised("this batch does not fit") from error

    monkeypatch.setattr(Tape, "capturing", short)
    found, replays = measured("bert", batches(), True)
    assert replays is not None
    assert replays.reason is not None
    assert "the GPU's memory is short; a smaller --batch-size leaves room" in replays.reason
    assert len(captured) == 2
    assert len(runs) == 1
    assert not any(shape.programs for shape in replays._shapes.values())
    assert held[0]() is None, "what the failed capture computed is freed"
    assert_equal(found, measured("bert", batches(), False)[0])


def test_programs_give_their_memory_to_a_batch_that_needs_it(runs: list[int], monkeypatch: pytest.MonkeyPatch) -> None:
    """Batches 5 and 6 are the first that are replayed; before the next width there is too little memory."""
    asked: list[int] = []

    def fits(self: GraphMemory, tokens: int) -> bool:
        asked.append(tokens)
        return not runs

    monkeypatch.setattr(GraphMemory, "fits", fits)
    found, replays = measured("bert", batches(), True)
    assert replays is not None
    assert replays.reason is not None
    assert "memory is short" in replays.reason
    assert not any(shape.programs for shape in replays._shapes.values())
    assert {*asked} == {batch.real.numel() for batch in batches(count=2)}
    assert_equal(found, measured("bert", batches(), False)[0])


def test_a_batch_fits_if_it_takes_no_more_for_each_token_than_captured_ones(monkeypatch: pytest.MonkeyPatch) -> None:
    memory = GraphMemory(CPU)
    assert memory.fits(10**9), "nothing is captured"
    memory.taken, memory._per_token = 1000, 10.0
    monkeypatch.setattr(GraphMemory, "usable", lambda self: 1250)
    assert memory.fits(100)
    assert not memory.fits(101)
    memory.taken = 0
    assert memory.fits(10**9)


def test_a_pool_does_not_outlive_its_last_graph(monkeypatch: pytest.MonkeyPatch) -> None:
    """Torch ends a pool with its last graph, and also when the first capture in it fails; to go on with it is an error."""
    handles = itertools.count()
    monkeypatch.setattr(GraphMemory, "is_on_gpu", True)
    monkeypatch.setattr(torch.cuda, "Stream", lambda device: object())
    monkeypatch.setattr(torch.cuda, "graph_pool_handle", lambda: next(handles))
    monkeypatch.setattr(torch.cuda, "memory_reserved", lambda device: 0)
    monkeypatch.setattr(torch.cuda, "empty_cache", lambda: None)
    memory, pools = GraphMemory(CPU), list[int]()

    def captured(fails: bool = False) -> Any:
        graph: Any = None
        with memory.growing(10):
            pools.append(memory.pool)
            if not fails:
                memory.hold(graph := type("Graph", (), {})())
        return graph

    captured(fails=True)
    first = captured()
    second = captured()
    captured(fails=True)
    third = captured()
    assert pools == [0, 1, 1, 1, 1]
    del first, second, third
    gc.collect()
    kept = captured()
    assert pools[5:] == [2]
    memory.release()
    captured()
    assert kept is not None
    assert pools[6:] == [3]


def test_a_layout_holds_every_tensor_at_its_place() -> None:
    tensors = {
        "ids": torch.randint(9, (3, 5)), "mask": torch.rand(7) > 0.5, ("input", "x"): torch.rand(2, 3), "none": torch.zeros(0, 4)
    }  # fmt: skip
    layout = Layout.of(tensors)
    views = layout.views(layout.packed(tensors, pinned=False))
    assert views.keys() == tensors.keys()
    for name, tensor in tensors.items():
        assert views[name].equal(tensor)
        assert views[name].dtype == tensor.dtype
    assert layout == Layout.of({name: torch.zeros_like(tensor) for name, tensor in tensors.items()})
    assert layout != Layout.of({**tensors, "ids": torch.zeros(3, 6, dtype=torch.long)})
