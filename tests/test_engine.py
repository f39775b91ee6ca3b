"""One pass for all layers: what is kept, planned, buffered or computed together changes no number; the way of attention is chosen
by what a model adds to its scores."""

import sys
from collections.abc import Callable, Iterator
from copy import deepcopy
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from torch import Tensor

from architectures import padded, tiny
from conoscope.capture import fused, fused_vectors
from conoscope.capture.batch import Batch
from conoscope.capture.eager import EagerAttention
from conoscope.capture.loading import LoadedModel
from conoscope.capture.recorder import Capture, traces_of
from conoscope.capture.trace import Trace
from conoscope.capture.ways import beyond_plain, choose
from conoscope.cli import main
from conoscope.common.errors import CaptureError
from conoscope.common.terminal import Progress
from conoscope.corpora import Corpus
from conoscope.measures import collecting
from conoscope.measures.needs import Need
from conoscope.measures.tally import Tally
from conoscope.measuring import windows
from conoscope.measuring.pipeline import Options, measure
from conoscope.quantities.base import QUANTITIES, REDUCTIONS, quantity
from conoscope.results.result import Result
from conoscope.sums import buffer, stacked
from conoscope.sums.statistics import Gram, Moments
from test_measures import assert_same_tables

CPU = torch.device("cpu")


@pytest.fixture(scope="module")
def whole(pure: LoadedModel, sentences: Corpus) -> Result:
    return measure(pure, sentences)


@pytest.mark.parametrize("room", [1, 20_000], ids=["layer by layer", "some layers"])
def test_how_many_layers_are_computed_together_changes_nothing(
    room: int, pure: LoadedModel, sentences: Corpus, whole: Result, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(collecting.BUDGET, "cpu", room)
    assert_same_tables(measure(pure, sentences), whole, 1e-9)


def test_how_much_is_buffered_and_planned_together_changes_nothing(
    pure: LoadedModel, sentences: Corpus, whole: Result, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(buffer, "ROOM", 8)
    monkeypatch.setattr(buffer, "MOST", 64)
    monkeypatch.setitem(windows.BATCHES, "cpu", 2)
    assert_same_tables(measure(pure, sentences, options=Options(batch_size=5)), whole, 1e-9)


def test_large_sums_are_added_to_some_places_at_a_time(
    pure: LoadedModel, sentences: Corpus, whole: Result, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stacked, "LARGE", 500)
    monkeypatch.setattr(stacked, "HELD", 50)
    assert_same_tables(measure(pure, sentences, options=Options(batch_size=5)), whole, 1e-9)


def test_symmetric_sums_kept_as_triangles_change_nothing(
    pure: LoadedModel, sentences: Corpus, whole: Result, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stacked, "PACKED", {"cpu"})
    assert_same_tables(measure(pure, sentences, options=Options(batch_size=5)), whole, 1e-9)


def test_sums_are_added_to_the_right_places_whatever_came_together() -> None:
    """Each slot's sum is that of its own arrays, if batches bring other slots together, in other runs."""
    torch.manual_seed(0)
    slots = [("need", layer) for layer in range(7)]
    sums, expected = stacked.StackedSums(), dict.fromkeys(slots, Gram())
    for some in ((0, 3), (3, 7), (0, 7), (2, 5), (5, 6), (0, 7)):
        part = Gram.of(torch.rand(4, some[1] - some[0], 3))
        sums.add(tuple(slots[slice(*some)]), part)
        expected |= {slot: expected[slot] + part.at(at) for at, slot in enumerate(slots[slice(*some)])}
    found = dict(sums.by_slot())
    assert found.keys() == expected.keys()
    for slot, sum_ in found.items():
        for name, tensor in sum_.state().items():
            torch.testing.assert_close(tensor, expected[slot].state()[name])


@pytest.mark.parametrize("room", [1, 20_000], ids=["layer by layer", "some layers"])
def test_what_is_of_some_tokens_is_computed_before_the_rest(
    room: int, pure: LoadedModel, sentences: Corpus, whole: Result, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(collecting.OF_SOME, "cpu", room)
    assert_same_tables(measure(pure, sentences), whole, 1e-9)


@pytest.fixture
def quantities() -> Iterator[list[str]]:
    """Quantities of one token each, whose places are a new tensor at every call."""

    def place(number: int) -> Callable[..., Tensor]:
        return lambda batch, **options: torch.arange(len(batch.real)) * batch.real.shape[1] + number

    def made(number: int) -> str:
        def coordinate(rows: Tensor) -> tuple[Tensor]:
            return (rows.flatten(2)[..., :1].double(),)

        coordinate.__name__ = f"coordinate_{number}"
        quantity(tokens=place(number))(coordinate)
        return coordinate.__name__

    names = [made(number) for number in range(4)]
    yield names
    for name in names:
        del QUANTITIES[name]


def test_each_quantity_gets_its_own_tokens(quantities: list[str]) -> None:
    batch, model = padded((9, 7, 5)), tiny("bert")
    needs = [Need.of(Moments, name, site="hidden") for name in quantities]
    tally = Tally.for_needs(needs)
    with Capture(model, "kv") as capture:
        capture(batch, tally.add)
    for number, need in enumerate(needs):
        for trace in traces_of(model, batch):
            expected = trace.hidden[:, number, 0].double().mean()
            assert float(dict(tally.of(need))[trace.layer].mean) == pytest.approx(float(expected), abs=1e-6)


def test_one_batch_can_be_read_for_several_tallies(pure: LoadedModel, sentences: Corpus, whole: Result) -> None:
    """What is planned for a batch belongs to one tally."""
    batches = list(pure.batcher(sentences).batches(sentences, 16))
    needs = whole.tally.needs
    tallies = [Tally.for_needs(needs), Tally.for_needs(needs[: len(needs) // 2])]
    with Capture(pure.module) as capture:
        for batch in batches:
            traces: list[object] = []
            capture(batch, traces.append)
            for trace in traces:
                for tally in tallies:
                    tally.add(trace)
    for need in tallies[1].needs:
        for (layer, one), (other_layer, other) in zip(*(tally.of(need) for tally in tallies), strict=True):
            assert layer == other_layer
            for name, tensor in one.state().items():
                torch.testing.assert_close(tensor, other.state()[name], rtol=1e-12, atol=1e-12, equal_nan=True)


def test_a_model_that_is_refused_is_left_as_it_was(pure: LoadedModel, sentences: Corpus) -> None:
    before = pure.module.config._attn_implementation
    with pytest.raises(CaptureError, match=r"has no head 9\.1"):
        measure(pure, sentences, ["class_maps:heads=9.1"])
    assert pure.module.config._attn_implementation == before


class Made(torch.nn.Module):
    """A module whose file has an eager attention of our own making."""


LOWEST = torch.finfo(torch.float32).min
Scores = Callable[[Tensor], Tensor]


def attention(changed: Scores, sink: float | None = None) -> Callable[..., tuple[Tensor, Tensor]]:
    """Eager attention with something done to its scores, or with a sink beside the keys."""

    def attend(
        module: torch.nn.Module, query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None, scaling: float
    ) -> tuple[Tensor, Tensor]:
        scores = changed(query @ key.mT * scaling) + (0 if mask is None else mask)
        beside = scores if sink is None else torch.nn.functional.pad(scores, (0, 1), value=sink)
        weights = beside.softmax(-1)[..., : scores.shape[-1]]
        return (weights @ value).transpose(1, 2), weights

    return attend


WEIGHTS = "its weights are not softmax(scale · q kᵀ + mask), as with a bias, a cap or sinks"


def slopes(scores: Tensor) -> Tensor:
    return scores - 1e-3 * torch.arange(scores.shape[-1])


@pytest.mark.parametrize(
    ("changed", "sink", "mask", "options", "reason"),
    [
        (lambda s: s, None, 0.0, {}, ""),
        (lambda s: s, None, LOWEST, {}, ""),
        (lambda s: s, None, -1.0, {}, "its mask does more than hide keys"),
        (slopes, None, 0.0, {}, WEIGHTS),
        (lambda s: 30 * torch.tanh(s / 30), None, 0.0, {}, WEIGHTS),
        (lambda s: s, None, 0.0, {"softcap": 30.0}, "its scores have a cap"),
        (lambda s: s, None, 0.0, {"scaling": None}, WEIGHTS),
        (lambda s: s, 0.0, 0.0, {}, WEIGHTS),
        (lambda s: s, -9.0, 0.0, {}, WEIGHTS),
    ],
    ids=[
        "nothing",
        "a mask that hides",
        "a mask that is no mask",
        "slopes",
        "a cap",
        "a named cap",
        "no scale",
        "a sink",
        "a small sink",
    ],
)
def test_attention_is_plain_only_if_nothing_is_added_and_the_reason_says_what(
    changed: Scores,
    sink: float | None,
    mask: float,
    options: dict[str, float | None],
    reason: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(sys.modules[__name__], "eager_attention_forward", attention(changed, sink), raising=False)
    query, key, value = torch.randn(3, 2, 2, 11, 4, generator=torch.Generator().manual_seed(0))
    hidden = torch.zeros(2, 1, 11, 11)
    hidden[1, ..., 7:] = mask
    for dtype in (torch.float32, torch.bfloat16):
        parts = (x.to(dtype) for x in (query / 4, key, value))
        assert beyond_plain(EagerAttention(Made(), *parts, hidden.to(dtype), {"scaling": 0.5, **options})) == reason


@pytest.mark.parametrize(
    ("name", "way"),
    [("bert", "softmax"), ("gpt2", "softmax"), ("llama", "softmax"), ("modernbert", "softmax"), ("deberta", "own")],
)
def test_the_way_is_chosen_once_for_a_model(name: str, way: str) -> None:
    with Capture(tiny(name)) as capture:
        capture(padded(), lambda trace: None)
    assert capture.choice.way == way
    with Capture(tiny(name), "kv") as capture:
        capture(padded(), lambda trace: None)
    assert capture.choice is None


def test_half_precision_on_a_cpu_runs_the_models_own_attention() -> None:
    with Capture(tiny("bert", torch.bfloat16)) as capture:
        capture(padded(), lambda trace: None)
    assert (capture.choice.way, capture.choice.reason) == ("own", "half precision on a CPU")


def test_where_kernels_do_not_run_torch_operations_take_their_place(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fused, "_FAILED", [])
    gpu, single = torch.device("cuda"), torch.float32
    monkeypatch.setattr(fused, "_has_triton", lambda index: True)
    assert choose(gpu, single, "").way == "fused"
    assert choose(gpu, torch.float64, "").way == "softmax"
    assert (choose(gpu, single, "a cap").way, choose(gpu, single, "a cap").reason) == ("own", "a cap")
    assert choose(gpu, single, "", whole=True).way == "own"
    assert choose(gpu, single, "", try_kernels=lambda: "no compiler").reason == "no compiler"
    assert choose(CPU, single, "").way == "softmax"

    def broken(*given: object) -> None:
        raise RuntimeError("no compiler")

    monkeypatch.setattr(fused, "runs_on", lambda device, dtype: not fused._FAILED)
    monkeypatch.setattr(fused_vectors, "vector_sums", broken)
    value = torch.zeros(3, 2, 11, 4)
    fused.try_vectors(value, padded())
    assert fused.failure() == "the fused kernels do not run here (RuntimeError)"
    assert choose(gpu, single, "").reason == fused.failure()
    assert choose(CPU, single, "").reason == "plain attention on a CPU"


@pytest.mark.parametrize(("count", "tokens", "seconds", "said"), [
    (1, 9, 0.01, "measured 1 example of 9 tokens in 0.010 s: 100 examples and 900 tokens a second"),
    (5000, 123456, 2.5, "measured 5,000 examples of 123,456 tokens in 2.5 s: 2,000 examples and 49,382 tokens a second"),
    (30, 12000, 20, "measured 30 examples of 12,000 tokens in 20.0 s: 1.5 examples and 600 tokens a second"),
])  # fmt: skip
def test_speed_is_told_at_the_end(
    count: int, tokens: int, seconds: float, said: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    now = [100.0]
    monkeypatch.setattr("conoscope.common.terminal.time.monotonic", lambda: now[0])
    with Progress(None, True) as progress:
        progress.advance(70)  # done before
        now[0] += seconds
        progress.advance(count, tokens)
    assert capsys.readouterr().err.splitlines()[-1] == said


def test_verbose_says_where_and_how(tmp_path: Path, pure: LoadedModel, capsys: pytest.CaptureFixture[str]) -> None:
    pure.module.save_pretrained(tmp_path / "model")
    pure.tokenizer.save_pretrained(tmp_path / "model")
    told = "on cpu in float32: attention is computed and reduced in chunks (plain attention on a CPU); 32 texts a batch\n"
    asked = ["measure", str(tmp_path / "model"), "bistro:test", "--limit", "3", "--device", "cpu"]
    assert main([*asked, "-m", "attention_entropy", "--verbose"]) == 0
    assert told in capsys.readouterr().err
    assert main([*asked, "-m", "attention_entropy"]) == 0
    assert "texts a batch" not in capsys.readouterr().err
    assert main([*asked, "-m", "sim", "--verbose"]) == 0
    assert "on cpu in float32: no attention weights are needed" in capsys.readouterr().err
    assert main(["measure", str(tmp_path / "model"), "-m", "directionality", "--verbose", "--device", "cpu"]) == 0
    assert "texts a batch" not in capsys.readouterr().err


def test_a_batch_that_is_moved_keeps_what_lies_in_the_cpus_memory() -> None:
    batch = padded()
    assert batch.to(CPU) is batch
    moved = batch.to(torch.device("meta"))
    assert moved.on_host is batch
    assert moved.to(torch.device("meta")) is moved
    drawn = moved.drawn("lengths", lambda host: host.real.sum(-1))
    assert drawn.device.type == "meta"
    assert isinstance(batch.cache["lengths"], Tensor)
    assert isinstance(moved, Batch)


@pytest.mark.parametrize("left", [False, True], ids=["padded right", "padded left"])
@pytest.mark.parametrize("name", ["bert", "gpt2"])
def test_maps_of_short_texts_are_as_large_as_the_longest_of_them(name: str, left: bool) -> None:
    """A batch of short texts may hold one very long one."""
    batch, found = padded((30, 7, 9, 4), left=left), list[Trace]()
    with Capture(tiny(name, torch.float64)) as capture:
        capture(batch, found.append)
    assert capture.choice.way == "softmax"
    some = torch.tensor([1, 3])
    maps = REDUCTIONS["maps"].compute(found[1], at=some)
    assert maps.shape[-1] == (30 if left else 7)
    for row, example in enumerate(some.tolist()):
        real = batch.real[example]
        whole = found[1].maps(torch.tensor([example]))[0][:, real][:, :, real]
        here = real[: maps.shape[-1]]
        torch.testing.assert_close(maps[row][:, here][:, :, here], whole, rtol=0, atol=1e-14)


class Caching(torch.nn.Module):
    """A module that keeps a tensor of its first pass, as some rotary embeddings do."""

    table: Tensor | None = None

    def forward(self, x: Tensor) -> Tensor:
        if self.table is None:
            self.table = torch.ones_like(x[..., :1, :1]).mean()
        return x * self.table


def test_a_model_can_be_trained_after_it_was_measured(pure: LoadedModel, sentences: Corpus) -> None:
    model = deepcopy(pure.module)
    hidden = next(module for module in model.modules() if isinstance(module, torch.nn.Linear))
    caching = Caching()
    hidden.register_forward_hook(lambda module, given, returned: caching(returned))
    measure(replace(pure, module=model), Corpus.of(list(sentences)[:8], "a few"), ["sim"])
    assert caching.table is not None
    batch = padded((5, 4))
    model(**batch.inputs).logits.sum().backward()
    assert any(parameter.grad is not None for parameter in model.parameters())
