"""Attention in pieces: where weights are cut by examples and by rows no number may change, and what cannot be cut is not."""

import itertools
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import cache

import pytest
import torch
from torch import Tensor

from architectures import FOLLOWED, SHAPES, padded, tiny
from conoscope.capture import softmax
from conoscope.capture.batch import Batch
from conoscope.capture.eager import PIECE, EagerAttention
from conoscope.capture.loading import LoadedModel
from conoscope.capture.recorder import Capture, traces_of, verify
from conoscope.capture.reductions import REDUCTIONS, AttentionChunk, Reducer, Reduction
from conoscope.capture.trace import Trace
from conoscope.corpora import Corpus
from conoscope.measures import CATALOGUE, request
from conoscope.measures.tally import Tally
from conoscope.measuring.pipeline import measure
from conoscope.results.result import Result
from test_measures import PROVENANCE, assert_same_tables, without_bins
from textbook import of_kinds

every_architecture = pytest.mark.parametrize("name", SHAPES)
LENGTHS = (20, 13, 7, 1)
HEADS, WIDTH = 4, 23
SINGLE = ("llama", "modernbert")
"""Those that take their softmax in float32."""


WAYS = {
    "own, row by row": (False, 1),
    "own, six rows": (False, HEADS * WIDTH * 6),
    "own, three examples": (False, HEADS * WIDTH * WIDTH * 3),
    "plain, row by row": (True, 1),
    "plain, six rows": (True, WIDTH * 6),
    "plain, three heads": (True, WIDTH * WIDTH * 3),
    "plain, two examples": (True, HEADS * WIDTH * WIDTH * 2),
    "plain, hidden keys left out": (True, None),
}
"""Whether our own attention may run, and how many weights it, or the model's own, computes at once."""


@pytest.fixture(params=WAYS)
def cut(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    plain, size = WAYS[request.param]
    if size is None:
        monkeypatch.setattr(softmax, "BLOCK", 4)
        monkeypatch.setattr(softmax, "LONG", 1)
    else:
        monkeypatch.setitem(softmax.CHUNK if plain else PIECE, "cpu", size)
    if not plain:
        monkeypatch.setattr("conoscope.capture.backends.beyond_plain", lambda eager: "a test")
    else:
        # In float64 a model whose softmax is in float32 runs its own attention: ours is more exact.
        monkeypatch.setattr("conoscope.capture.recorder._agree", lambda *given: True)
    return "softmax" if plain else "own"


def a_batch() -> Batch:
    return of_kinds(LENGTHS, extra=WIDTH - max(LENGTHS))


def measured(name: str, whole: bool) -> tuple[Result, list[Trace], Tensor]:
    """Every table of the catalogue, the traces, and the logits."""
    tally, traces = Tally.for_needs(need for wanted in CATALOGUE for need in request(wanted).needs()), []

    def take(trace: Trace) -> None:
        traces.append(trace)
        tally.add(trace)

    with Capture(tiny(name, torch.float64), "full", tally.reductions, whole=whole) as capture:
        logits = capture(a_batch(), take, tally.add)
    return Result(tally, {**PROVENANCE, "options": {"kinds": {"negation": []}}}), traces, logits


@cache
def measured_whole(name: str) -> tuple[Result, Tensor]:
    result, _, logits = measured(name, True)
    if name in SINGLE:
        without_bins([result])
    return result, logits


@pytest.mark.parametrize("name", [name for name in SHAPES if name not in FOLLOWED])
def test_no_table_of_the_catalogue_changes_and_nor_do_the_logits(name: str, cut: str) -> None:
    """1e-9 in float64; 1e-5 where the model's own softmax casts to float32."""
    (whole, logits), (pieces, traces, cut_logits) = measured_whole(name), measured(name, False)
    assert all(trace.weights is None for trace in traces[1:])
    tolerance = 1e-5 if name in SINGLE else 1e-9
    torch.testing.assert_close(cut_logits, logits, rtol=0, atol=tolerance)
    if name in SINGLE:
        without_bins([pieces])
    assert whole.tables.keys() == pieces.tables.keys()
    assert {"norms", "frequency", "heads", "mixing", "gates", "attention_entropy"} <= {*whole.tables}
    assert_same_tables(whole, pieces, tolerance)


@pytest.mark.parametrize("name", FOLLOWED)
def test_models_off_the_interface_are_looked_at_whole(name: str, cut: str) -> None:
    found: list[Trace] = []
    with Capture(tiny(name)) as capture:
        capture(a_batch(), found.append)
    assert all(trace.weights is not None for trace in found[1:])


@pytest.mark.parametrize("name", ["bert", "gpt2", "llama", "modernbert"])
def test_every_look_and_every_map_is_the_same_in_both_ways(name: str, cut: str) -> None:
    batch, model = a_batch(), tiny(name, torch.float64)
    pieces: list[Trace] = []
    with Capture(model) as capture:
        capture(batch, pieces.append)
    assert capture.choice.way == cut
    examples, tokens = torch.tensor([2, 0]), batch.real.flatten().nonzero()[:, 0]
    for whole, trace in zip(traces_of(model, batch)[1:], pieces[1:], strict=True):
        assert whole.weights is not None
        assert trace.weights is None
        assert trace.reductions.keys() == REDUCTIONS.keys()
        tolerance = 1e-5 if name in SINGLE else 1e-12
        torch.testing.assert_close(whole.paired(tokens), trace.paired(tokens), rtol=0, atol=tolerance)
        for look in REDUCTIONS:
            # What padded queries do is nobody's: they see all keys or none.
            one, other = whole.reduction(look), trace.reduction(look)
            assert one.shape == other.shape
            if REDUCTIONS[look].of == "query":
                one, other = (x.transpose(1, 2)[batch.real] for x in (one, other))
            # Relative as well: what a key receives is a sum over queries.
            torch.testing.assert_close(one, other, rtol=tolerance, atol=tolerance)
        assert torch.equal(whole.visible, trace.visible)
        one, other = (x.maps(examples).transpose(1, 2)[batch.real[examples]] for x in (whole, trace))
        torch.testing.assert_close(one, other, rtol=0, atol=tolerance)
        one, other = (x.context.transpose(1, 2)[batch.real] for x in (whole, trace))
        torch.testing.assert_close(one, other, rtol=0, atol=tolerance)


@every_architecture
def test_logits_in_pieces_are_those_of_the_plain_model_up_to_rounding(name: str, cut: str) -> None:
    found = verify(tiny(name), padded(LENGTHS))
    assert found["full"] <= 2e-5
    assert found["kv"] == 0.0


def pieces_of(rows: int, heads: int, tokens: int, axes: set[str], size: int) -> list[tuple[slice, slice]]:
    x = torch.zeros(rows, heads, tokens, 2)
    PIECE["cpu"], kept = size, PIECE["cpu"]
    try:
        return list(EagerAttention(torch.nn.Identity(), x, x, x, None, {}).chunks(frozenset(axes)))
    finally:
        PIECE["cpu"] = kept


@pytest.mark.parametrize("axes", [{"examples", "rows"}, {"examples"}, {"rows"}, set()])
@pytest.mark.parametrize("size", [1, 50, 1000, 4000, 10**6])
@pytest.mark.parametrize(("rows", "heads", "tokens"), [(1, 1, 1), (5, 2, 7), (3, 4, 30), (32, 12, 1)])
def test_pieces_hold_every_row_once_in_order_and_only_axes_that_may_be_cut_are(
    rows: int, heads: int, tokens: int, axes: set[str], size: int
) -> None:
    found = pieces_of(rows, heads, tokens, axes, size)
    examples, queries = range(rows), range(tokens)
    held = [(e, q) for piece, part in found for e in examples[piece] for q in queries[part]]
    assert sorted(held) == list(itertools.product(examples, queries))
    assert len(held) == len({*held})
    starts = [(piece.start, part.start) for piece, part in found]
    assert starts == sorted(starts)
    if "examples" not in axes:
        assert all(examples[piece] == examples for piece, _ in found)
    if "rows" not in axes:
        assert all(queries[part] == queries for _, part in found)
    if axes == {"examples", "rows"}:
        largest = max(len(examples[piece]) * len(queries[part]) for piece, part in found) * heads * tokens
        assert largest <= max(size, heads * tokens)


Attention = Callable[..., tuple[Tensor, Tensor]]


class Made(torch.nn.Module):
    """A module whose file has an eager attention of our own making."""


@pytest.fixture
def native(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[Attention], EagerAttention]]:
    generator = torch.Generator().manual_seed(0)
    query, key, value = torch.randn(3, 3, 2, 11, 4, generator=generator)
    mask = torch.zeros(3, 1, 11, 11)
    mask[1, ..., 9:] = mask[2, ..., 2:] = torch.finfo(torch.float32).min

    def made(attention: Attention) -> EagerAttention:
        monkeypatch.setattr(sys.modules[__name__], "eager_attention_forward", attention, raising=False)
        return EagerAttention(Made(), query, key, value, mask, {"scaling": 0.5})

    return made


def plain(module: torch.nn.Module, query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None, scaling: float) -> tuple:
    weights = (query @ key.mT * scaling + (0 if mask is None else mask)).softmax(-1)
    return (weights @ value).transpose(1, 2), weights


def causal(at: Callable[[int, int], int]) -> Attention:
    """Attention with a causal mask of its own, the first query at a place that is told by the numbers of queries and keys."""

    def attend(module: torch.nn.Module, query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None, scaling: float) -> tuple:
        queries, keys = query.shape[2], key.shape[2]
        hidden = torch.arange(keys) > torch.arange(queries)[:, None] + at(queries, keys)
        return plain(module, query, key, value, mask + hidden * torch.finfo(torch.float32).min, scaling)

    return attend


def by_batch(module: torch.nn.Module, query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None, scaling: float) -> tuple:
    """What is taken away from the scores is of all examples together."""
    return plain(module, query - query.mean(0), key, value, mask, scaling)


def by_queries(module: torch.nn.Module, query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None, scaling: float) -> tuple:
    return plain(module, query, key, value, mask, scaling / query.shape[2])


@pytest.mark.parametrize(
    ("attention", "axes"),
    [
        (plain, {"examples", "rows"}),
        (by_queries, {"examples"}),
        (causal(lambda queries, keys: 0), {"examples"}),
        (causal(lambda queries, keys: keys - queries), {"examples"}),
        (by_batch, {"rows"}),
    ],
    ids=["plain", "scaled by the number of queries", "causal from the first", "causal up to the last", "centred over the batch"],
)
def test_an_axis_is_cut_only_where_the_answer_stays(
    attention: Attention, axes: set[str], native: Callable[[Attention], EagerAttention]
) -> None:
    """A causal mask that counts its queries is right for the last rows, or for the first: those must not be what is tried."""
    made = native(attention)
    context, weights = made()
    assert made.cuts(context, weights) == axes


@pytest.mark.parametrize("examples", [slice(1, 3), torch.tensor([2, 0])])
def test_a_part_has_the_mask_and_the_options_of_its_own(
    examples: slice | Tensor, native: Callable[[Attention], EagerAttention]
) -> None:
    def biased(
        module: torch.nn.Module,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        mask: Tensor,
        scaling: float,
        bias: Tensor,
        alike: Tensor,
    ) -> tuple:
        return plain(module, query, key, value, mask + bias + alike, scaling)

    generator = torch.Generator().manual_seed(1)
    more = {
        "bias": torch.randn(3, 2, 11, 11, generator=generator),
        "alike": torch.randn(1, 2, 11, 11, generator=generator),
    }
    made = replace(native(biased), options={"scaling": 0.5, **more})
    context, weights = made()
    part_context, part_weights = made(examples, slice(2, 7))
    torch.testing.assert_close(part_context, context[examples, 2:7])
    torch.testing.assert_close(part_weights, weights[examples, :, 2:7])
    assert made.cuts(context, weights) == {"examples", "rows"}


def test_a_model_whose_attention_cannot_be_cut_is_looked_at_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    model, batch = tiny("bert"), a_batch()
    monkeypatch.setattr("conoscope.capture.backends.beyond_plain", lambda eager: "a test")
    expected = traces_of(model, batch)
    monkeypatch.setitem(PIECE, "cpu", 1)
    monkeypatch.setattr(EagerAttention, "cuts", lambda *given: frozenset())
    found: list[Trace] = []
    with Capture(model) as capture:
        capture(batch, found.append)
    for one, other in zip(expected[1:], found[1:], strict=True):
        assert torch.equal(one.weights, other.weights)


def test_maps_of_a_model_whose_examples_cannot_be_cut_are_of_the_right_examples(monkeypatch: pytest.MonkeyPatch) -> None:
    model, batch = tiny("bert"), a_batch()
    expected = traces_of(model, batch)[2].weights
    monkeypatch.setattr("conoscope.capture.backends.beyond_plain", lambda eager: "a test")
    monkeypatch.setitem(PIECE, "cpu", 1)
    monkeypatch.setattr(EagerAttention, "cuts", lambda *given: frozenset({"rows"}))
    found: list[Trace] = []
    with Capture(model) as capture:
        capture(batch, found.append)
    assert found[2].weights is None
    torch.testing.assert_close(found[2].maps(torch.tensor([3, 1])), expected[[3, 1]])


@pytest.mark.parametrize(("plain", "size"), [(True, 2**20), (False, 1), (False, 2**20)], ids=["plain", "in pieces", "whole"])
def test_only_the_looks_that_are_asked_for_are_taken(plain: bool, size: int, monkeypatch: pytest.MonkeyPatch) -> None:
    looked: list[str] = []

    def counted(name: str, look: Reduction) -> Reduction:
        return Reduction(lambda piece: (looked.append(name), look.compute(piece))[1], look.of)

    for name, look in list(REDUCTIONS.items()):
        monkeypatch.setitem(REDUCTIONS, name, counted(name, look))
    monkeypatch.setitem(PIECE, "cpu", size)
    if not plain:
        monkeypatch.setattr("conoscope.capture.backends.beyond_plain", lambda eager: "a test")
    found: list[Trace] = []
    with Capture(tiny("bert"), reductions=("entropy",)) as capture:
        capture(a_batch(), found.append)
    kept = plain or size == 1
    assert set(looked) == ({"entropy"} if kept else set())
    assert found[1].reductions.keys() == ({"entropy"} if kept else set())
    assert found[1].reduction("entropy") is not None
    assert (found[1].reduction("band") is None) == kept
    assert set(looked) <= {"entropy", "band"}


def test_a_run_looks_at_no_more_than_its_measures_need(
    pure: LoadedModel, sentences: Corpus, monkeypatch: pytest.MonkeyPatch
) -> None:
    looked: set[str] = set()
    take = Reducer.take
    monkeypatch.setattr(Reducer, "take", lambda self, piece: (looked.update(self.names), take(self, piece))[1])
    monkeypatch.setitem(PIECE, "cpu", 1)
    for name, needed in (("heads", {"entropy", "band", "received"}), ("mixing", {"band"}), ("frequency", {"received"})):
        looked.clear()
        measure(pure, sentences.first(5), [name])
        assert looked == needed


def test_on_minilm_no_way_changes_a_number(minilm64: LoadedModel, sentences: Corpus, monkeypatch: pytest.MonkeyPatch) -> None:
    names = ["norms", "frequency", "heads", "mixing", "attention_entropy"]
    few = Corpus.of(list(sentences)[:24], "a few")
    plain = measure(minilm64, few, names)
    monkeypatch.setitem(softmax.CHUNK, "cpu", 20 * 7)
    assert_same_tables(measure(minilm64, few, names), plain, 1e-9)
    monkeypatch.setattr("conoscope.capture.backends.beyond_plain", lambda eager: "a test")
    assert_same_tables(measure(minilm64, few, names), plain, 1e-9)
    monkeypatch.setitem(PIECE, "cpu", 12 * 20 * 7)
    assert_same_tables(measure(minilm64, few, names), plain, 1e-9)


def test_a_chunk_has_no_weight_outside_its_columns() -> None:
    weights = torch.arange(1.0, 13).view(1, 1, 3, 4)
    chunk = AttentionChunk(weights, a_batch(), rows=slice(4, 7), columns=slice(2, 6))
    found = chunk.gather(torch.tensor([0, 2, 5, 6])[None, None, None].expand(1, 1, 3, -1))
    assert found[0, 0].tolist() == [[0, 1, 4, 0], [0, 5, 8, 0], [0, 9, 12, 0]]
    assert (chunk.row, chunk.column) == (4, 2)
