"""What is mixed in from each kind of token, against α f(x) written out for every pair, and what a draw of keys stands for."""

import math
from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from architectures import SHAPES, tiny
from conoscope.capture.batch import Batch
from conoscope.capture.draws import DRAWN, drawn_keys, drawn_queries, drawn_weights
from conoscope.capture.loading import LoadedModel
from conoscope.capture.recorder import traces_of
from conoscope.capture.token_kinds import SPECIAL
from conoscope.capture.trace import Trace
from conoscope.capture.wiring import Projection
from conoscope.corpora import Corpus, Example
from conoscope.measures.correlation import ranks, spearman
from conoscope.measuring.pipeline import Options, measure
from quantities import computed
from textbook import LENGTHS, NAMES, Text, cells, length, naive_spearman, of_kinds, read, texts

TEXTBOOK = ("bert", "gpt2", "llama", "albert", "distilbert", "electra", "modernbert", "deberta")
FEW = (17, 12, 9, 5, 1)
"""Lengths of which no text has more than DRAWN tokens besides its special ones."""


def naive_norms(text: Text, kind: str, head: int | None) -> tuple[float, float, float]:
    """Σ ‖α f‖ and Σ α over the keys of a kind, means over queries, and mean ‖f‖; of one head, or of all together."""
    keys, n = text.of(kind), text.a.shape[1]
    mixed = text.pairs if head is None else text.mixed[head]
    norm = sum(length(mixed[i, j]) for i in range(n) for j in keys) / n
    heads = range(len(text.a)) if head is None else [head]
    weight = sum(text.a[h, i, j] for h in heads for i in range(n) for j in keys) / n / len(heads)
    lengths = [length(text.f[h, j]) for h in heads for j in keys]
    return norm, weight, sum(lengths) / len(lengths) if lengths else math.nan


@pytest.mark.parametrize("name", TEXTBOOK)
def test_norms_equal_those_of_all_pairs_written_out(name: str) -> None:
    traces = traces_of(tiny(name, torch.float64), of_kinds(FEW, extra=3))
    found = cells(read("norms", traces)["norms"], "layer", "head", "kind")
    assert {kind for _, _, kind in found} == {*NAMES}
    for trace in traces[1:]:
        of_text = list(texts(trace))
        for head in (None, *range(4)):
            expected = {kind: [naive_norms(text, kind, head) for text in of_text] for kind in NAMES}
            total = sum(np.mean([norm for norm, _, _ in each]) for each in expected.values())
            for kind, each in expected.items():
                norm, weight, f = (np.array(column) for column in zip(*each, strict=True))
                row = found[trace.layer, None if head is None else head + 1, kind]
                assert row["value"] == pytest.approx(norm.mean(), abs=1e-9)
                assert row["sd"] == pytest.approx(norm.std(ddof=1), abs=1e-9)
                assert row["n"] == len(of_text)
                assert row["weight"] == pytest.approx(weight.mean(), abs=1e-9)
                assert row["share"] == pytest.approx(norm.mean() / total, abs=1e-9)
                assert row["transformed"] == pytest.approx(np.nanmean(f), abs=1e-9)


@pytest.mark.parametrize("name", SHAPES)
def test_what_is_mixed_in_and_the_bias_is_the_output_of_the_module(name: str) -> None:
    """1e-10 in float64; Llama and ModernBERT take their softmax in float32, but multiply in float64."""
    for trace in traces_of(tiny(name, torch.float64), of_kinds())[1:]:
        for text in texts(trace):
            np.testing.assert_allclose(text.pairs.sum(1) + text.bias, text.output, rtol=0, atol=1e-10)


@pytest.mark.parametrize("name", TEXTBOOK)
def test_dispersion_is_that_of_the_norms_of_all_tokens(name: str) -> None:
    traces = traces_of(tiny(name, torch.float64), of_kinds())
    found = cells(read("norms", traces)["norms.dispersion"], "layer", "head")
    for trace in traces[1:]:
        for head in range(4):
            lengths = np.array([length(text.f[head, j]) for text in texts(trace) for j in range(text.f.shape[1])])
            row = found[trace.layer, head + 1]
            assert row["n"] == sum(LENGTHS)
            assert row["mean"] == pytest.approx(lengths.mean(), abs=1e-9)
            assert row["sd"] == pytest.approx(lengths.std(ddof=1), abs=1e-9)
            assert row["value"] == pytest.approx(lengths.std(ddof=1) / lengths.mean(), abs=1e-9)
            assert (row["low"], row["high"]) == (pytest.approx(lengths.min()), pytest.approx(lengths.max()))


def test_norms_on_minilm_equal_one_text_at_a_time_without_padding(minilm64: LoadedModel, sentences: Corpus) -> None:
    """Real kinds, real weights: [CLS], [SEP], punctuation and words, one of the texts a pair with two [SEP]."""
    result = measure(minilm64, sentences, ["norms"])
    found = cells(result["norms"], "layer", "head", "kind")
    batcher = minilm64.batcher(sentences)
    of_layer: dict[int, list[Text]] = {}
    for example in sentences:
        for trace in traces_of(minilm64.module, batcher.batch([example]))[1:]:
            of_layer.setdefault(trace.layer, []).extend(texts(trace))
    assert {kind for _, _, kind in found} == {"cls", "sep", "punctuation", "other"}
    assert sum(text.kind.count("sep") for text in of_layer[1]) == len(of_layer[1]) + 1
    for layer in (1, 4, 6):
        for kind in ("cls", "sep", "punctuation", "other"):
            for head in (0, 11):
                each = [
                    (text.a[head] * np.linalg.norm(text.f[head], axis=-1))[:, text.of(kind)].sum(-1).mean()
                    for text in of_layer[layer]
                ]
                assert found[layer, head + 1, kind]["value"] == pytest.approx(np.mean(each), abs=1e-9)
            short = [text for text in of_layer[layer] if len(text.of("other")) + len(text.of("punctuation")) <= DRAWN]
            if kind in ("cls", "sep"):
                short = of_layer[layer]
            if len(short) == len(of_layer[layer]):
                each = [np.linalg.norm(text.pairs, axis=-1)[:, text.of(kind)].sum(-1).mean() for text in short]
                assert found[layer, None, kind]["value"] == pytest.approx(np.mean(each), abs=1e-9)


def exact(trace: Trace, row: int, kind: str) -> float:
    text = list(texts(trace))[row]
    return float(np.linalg.norm(text.pairs, axis=-1)[:, text.of(kind)].sum(-1).mean())


def test_of_a_long_text_the_drawn_keys_stand_for_the_others() -> None:
    batch = of_kinds()
    trace = traces_of(tiny("bert", torch.float64), batch)[1]
    (found,) = computed("summed_kind_norms", trace)
    at, standing = drawn_keys(batch), drawn_weights(batch)
    for row, text in enumerate(texts(trace)):
        norms = np.linalg.norm(text.pairs, axis=-1).mean(0)
        others = int((batch.kind[row] > SPECIAL).sum())
        specials = [j for j in range(len(text.kind)) if int(batch.kind[row, j]) <= SPECIAL]
        hashes = {j: int(batch.token_ranks[row, j]) for j in range(len(text.kind)) if j not in specials}
        drawn = sorted(hashes, key=hashes.__getitem__)[:DRAWN]
        assert sorted(at[row][standing[row] > 0].tolist()) == sorted([*specials, *drawn])
        for kind, name in enumerate(NAMES):
            told = sum(norms[j] for j in specials if text.kind[j] == name)
            told += sum(norms[j] for j in drawn if text.kind[j] == name) * others / max(1, len(drawn))
            assert float(found[row, kind]) == pytest.approx(told, abs=1e-10)
            if others <= DRAWN:
                assert float(found[row, kind]) == pytest.approx(exact(trace, row, name), abs=1e-10)


def test_what_is_drawn_is_right_on_average() -> None:
    """The same text under 400 names: the mean of the drawn sums lies within its standard error of the sum over all keys."""
    batch = of_kinds((60,))
    trace = traces_of(tiny("bert", torch.float64), batch)[1]
    named = [replace(trace, batch=replace(batch, ids=(f"text {number}",))) for number in range(400)]
    found = torch.cat([computed("summed_kind_norms", other)[0] for other in named])
    errors = found.std(0) / math.sqrt(len(found))
    for kind, name in enumerate(NAMES):
        assert float(found[:, kind].mean()) == pytest.approx(exact(trace, 0, name), abs=max(3.5 * float(errors[kind]), 1e-10))
    assert (errors[[NAMES.index("punctuation"), NAMES.index("other")]] > 0).all()
    assert (errors[[NAMES.index("cls"), NAMES.index("sep"), NAMES.index("special")]] < 1e-12).all()


def test_the_drawn_queries_are_real_and_any_of_them_may_come() -> None:
    batch = of_kinds((9, 4), extra=3)
    asked = [drawn_queries(replace(batch, ids=(f"a{number}", f"b{number}"))) for number in range(200)]
    for row, size in enumerate((9, 4)):
        assert {int(at) for each in asked for at in each[row, :size]} == set(range(size))


def pairs(traces: list[Trace]) -> dict[tuple[int, str], tuple[np.ndarray, np.ndarray]]:
    """α of the drawn query and ‖f‖, (n, h), of each key, by layer and kind."""
    found: dict[tuple[int, str], tuple[np.ndarray, np.ndarray]] = {}
    batch = traces[0].batch
    queries = drawn_queries(batch)
    for trace in traces[1:]:
        for kind in NAMES:
            both = [
                (text.a[:, int(queries[row, j]), j], np.array([length(f) for f in text.f[:, j]]))
                for row, text in enumerate(texts(trace))
                for j in text.of(kind)
            ]
            seen = [(a, f) for a, f in both if (a > 0).any()]
            found[trace.layer, kind] = np.array([a for a, _ in seen]), np.array([f for _, f in seen])
    return found


@pytest.mark.parametrize("name", ["bert", "gpt2", "llama", "albert"])
def test_cancel_out_is_the_rank_correlation_of_drawn_pairs(name: str) -> None:
    traces = traces_of(tiny(name, torch.float64), of_kinds())
    found, expected = cells(read("norms", traces)["norms.cancel_out"], "layer", "head", "kind"), pairs(traces)
    for kind in NAMES:
        for layer in (1, 2, 3):
            a, f = expected[layer, kind]
            for head in range(4 if len(a) else 0):
                row = found[layer, head + 1, kind]
                correlation = naive_spearman(a[:, head], f[:, head])
                assert float(row["value"]) == pytest.approx(correlation, abs=1e-9, nan_ok=True)
                assert row["n"] == (0 if math.isnan(correlation) else len(a))
            row = found[layer, None, kind]
            assert float(row["value"]) == pytest.approx(naive_spearman(a.flatten(), f.flatten()), abs=1e-9, nan_ok=True)
        a, f = (np.concatenate([expected[layer, kind][side].flatten() for layer in (1, 2, 3)]) for side in (0, 1))
        assert float(found[None, None, kind]["value"]) == pytest.approx(naive_spearman(a, f), abs=1e-9, nan_ok=True)
        assert found[None, None, kind]["n"] == len(a)


def test_what_a_causal_query_cannot_see_is_no_pair() -> None:
    traces = traces_of(tiny("gpt2", torch.float64), of_kinds())
    queries, batch = drawn_queries(traces[0].batch), traces[0].batch
    seen = (queries >= torch.arange(queries.shape[1])) & (batch.named == NAMES.index("other"))
    found = cells(read("norms", traces)["norms.cancel_out"], "layer", "head", "kind")
    assert found[1, 1, "other"]["n"] == int(seen.sum()) < int((batch.named == NAMES.index("other")).sum())


def single_keys(traces: list[Trace]) -> dict[tuple[int, str], list[tuple[int, float, float]]]:
    """Head, α and ‖f‖ of the 32 keys with the smallest hash that their drawn query sees, by layer and kind."""
    found: dict[tuple[int, str], list[tuple[int, float, float]]] = {}
    batch = traces[0].batch
    queries = drawn_queries(batch)
    for trace in traces[1:]:
        for kind in NAMES:
            hashed = []
            for row, text in enumerate(texts(trace)):
                for j in text.of(kind):
                    rank, heads = int(batch.token_ranks[row, j]), text.a[:, int(queries[row, j]), j]
                    if any(heads > 0):
                        head = rank % len(heads)
                        hashed.append((rank, (head + 1, heads[head], length(text.f[head, j]))))
            found[trace.layer, kind] = [told for _, told in sorted(hashed)[:32]]
    return found


@pytest.mark.parametrize("name", ["bert", "gpt2", "llama", "albert"])
def test_single_keys_are_those_of_the_smallest_hashes_that_a_query_sees(name: str) -> None:
    traces = traces_of(tiny(name, torch.float64), of_kinds((40, 38, 37, 36, 23, 5)))
    frame = read("norms", traces)["norms.tokens"]
    assert list(frame.columns) == ["measure", "site", "layer", "head", "kind", "value", "sd", "n", "weight", "norm"]
    expected = single_keys(traces)
    assert len(frame) == sum(map(len, expected.values()))
    assert max(map(len, expected.values())) == 32
    for (layer, kind), each in expected.items():
        rows = frame[(frame["layer"] == layer) & (frame["kind"] == kind)]
        assert rows["head"].tolist() == [head for head, _, _ in each]
        for column, values in (
            ("weight", [a for _, a, _ in each]),
            ("value", [f for _, _, f in each]),
            ("norm", [a * f for _, a, f in each]),
        ):
            np.testing.assert_allclose(rows[column].to_numpy(float), values, rtol=0, atol=1e-9)


def test_single_keys_are_the_same_in_every_layer_however_the_corpus_is_cut(minilm64: LoadedModel, sentences: Corpus) -> None:
    whole = measure(minilm64, sentences, ["norms"])["norms.tokens"]
    for _, rows in whole.groupby("kind"):
        heads = [of_layer["head"].tolist() for _, of_layer in rows.groupby("layer")]
        assert len(heads) == 6
        assert all(each == heads[0] for each in heads)
        assert len(set(heads[0])) > 8
    parts = [measure(minilm64, sentences, ["norms"], Options(batch_size=5, shard=(number, 3))) for number in (2, 3, 1)]
    merged = (parts[0] + parts[1] + parts[2])["norms.tokens"]
    assert merged[["layer", "head", "kind"]].equals(whole[["layer", "head", "kind"]])
    for column in ("value", "weight", "norm"):
        np.testing.assert_allclose(merged[column].to_numpy(float), whole[column].to_numpy(float), rtol=0, atol=1e-9)


def test_ranks_share_the_mean_where_numbers_are_equal() -> None:
    assert ranks(torch.tensor([3.0, 1.0, 3.0, 2.0, 3.0]).double()).tolist() == [4.0, 1.0, 4.0, 2.0, 4.0]


def test_ranks_share_the_mean_where_numbers_differ_by_rounding_alone() -> None:
    """[CLS] has the same ‖f‖ in the first layer of every text, and a correlation with it would be made up of rounding."""
    x = 5.0 + torch.randn(200, generator=torch.Generator().manual_seed(0)).double() * 5e-7
    assert set(ranks(x).tolist()) == {100.5}
    assert math.isnan(spearman(x, torch.arange(200).double()))


@pytest.mark.parametrize("size", [1, 2, 8])
def test_weights_and_the_one_norm_of_cls_in_the_first_layer_have_no_correlation(
    minilm: LoadedModel, sentences: Corpus, size: int
) -> None:
    frame = measure(minilm, sentences, ["norms"], Options(batch_size=size))["norms.cancel_out"]
    of_cls = frame[(frame["kind"] == "cls") & (frame["layer"] == 1) & frame["head"].notna()]
    assert len(of_cls) == 12
    assert of_cls["value"].isna().all()
    assert set(of_cls["n"]) == {0}


@given(
    st.lists(st.tuples(st.integers(-3, 3), st.floats(-1e3, 1e3, width=16)), min_size=3, max_size=40),
)
@settings(max_examples=60, deadline=None)
def test_rank_correlation_is_that_of_scipy_whatever_the_ties(both: list[tuple[int, float]]) -> None:
    x, y = (np.array(side, dtype=float) for side in zip(*both, strict=True))
    assert spearman(torch.tensor(x), torch.tensor(y)) == pytest.approx(naive_spearman(x, y), abs=1e-9, nan_ok=True)


def test_a_kind_that_no_text_has_has_no_row(pure: LoadedModel) -> None:
    result = measure(pure, [Example("the soup was cold"), Example("we loved the bread")], ["norms"])
    assert {*result["norms"]["kind"]} == {"cls", "other"}


def random_trace(seed: int, rows: int, tokens: int, heads: int, groups: int, dtype: torch.dtype) -> Trace:
    generator = torch.Generator().manual_seed(seed)
    real = torch.arange(tokens) < torch.randint(1, tokens + 1, (rows, 1), generator=generator)
    kind = torch.randint(0, 5, (rows, tokens), generator=generator).where(real, -1)
    batch = replace(Batch.of_ids(torch.zeros(rows, tokens, dtype=torch.long), real), kind=kind, named=kind)
    scores = torch.randn(rows, heads, tokens, tokens, generator=generator, dtype=dtype) * 3
    weights = scores.masked_fill(~real[:, None, None], -torch.inf).softmax(-1)
    value = torch.randn(rows, groups, tokens, 3, generator=generator, dtype=dtype)
    w_o = torch.randn(heads, 3, 7, generator=generator, dtype=dtype)
    visible = real.sum(-1, keepdim=True)
    return Trace(1, batch, value=value, weights=weights, visible=visible, projection=Projection(w_o, None))


@given(
    st.integers(0, 2**32), st.integers(1, 4), st.integers(1, 30), st.sampled_from([(1, 1), (4, 2), (3, 3)]),
    st.sampled_from([torch.float32, torch.float64]),
)  # fmt: skip
@settings(max_examples=40, deadline=None)
def test_shares_and_weights_of_all_kinds_are_one_and_heads_together_mix_in_no_more_than_apart(
    seed: int, rows: int, tokens: int, heads: tuple[int, int], dtype: torch.dtype
) -> None:
    trace = random_trace(seed, rows, tokens, *heads, dtype)
    frame = read("norms", [trace])["norms"]
    of_head = frame.groupby("head", dropna=False)
    assert np.allclose(of_head["share"].sum(), 1, atol=1e-5)
    assert np.allclose(of_head["weight"].sum(), 1, atol=1e-5)
    assert (frame[["value", "share", "weight", "transformed"]].to_numpy(float) >= 0).all()
    if tokens <= DRAWN:
        apart = frame[frame["head"].notna()].groupby("kind")["value"].sum()
        together = frame[frame["head"].isna()].set_index("kind")["value"]
        assert (together <= apart[together.index] * (1 + 1e-5) + 1e-6).all()
