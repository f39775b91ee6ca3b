"""What each head looks at, against a loop over rows and keys, and what must not change it."""

import math
from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from architectures import SHAPES, tiny
from conoscope.capture.batch import Batch
from conoscope.capture.loading import LoadedModel
from conoscope.capture.recorder import traces_of
from conoscope.capture.token_kinds import OTHER, SEP
from conoscope.capture.trace import Trace
from conoscope.corpora import Corpus
from conoscope.measuring.pipeline import measure
from conoscope.quantities.kinds import HEADS
from textbook import LENGTHS, NAMES, Text, cells, of_kinds, read, texts

MISSING = {"entropy_cls": 1, "sep_to_sep": 2, "other_to_sep": 2}
"""In how many of the texts there is no such number."""


def mean(numbers: list[float]) -> float:
    return sum(numbers) / len(numbers) if numbers else math.nan


def entropy(row: np.ndarray) -> float:
    return -sum(p * math.log(p) for p in row.tolist() if p > 0)


def naive_head(a: np.ndarray, kinds: list[str], at: int | None) -> dict[tuple[str, str], float]:
    """One head of one text, row by row; `at` is where the classifying token stands."""
    n = len(a)
    rows = range(n)
    separators = [i for i in rows if kinds[i] == "sep"]
    to_sep = {i: sum(a[i, j] for j in separators) for i in rows}
    found = {
        "self": mean([a[i, i] for i in rows]),
        "previous": mean([a[i, i - 1] if i > 0 else 0.0 for i in rows]),
        "next": mean([a[i, i + 1] if i < n - 1 else 0.0 for i in rows]),
        "first": mean([a[i, 0] for i in rows]),
        "entropy": mean([entropy(a[i]) for i in rows]),
        "entropy_cls": math.nan if at is None else entropy(a[at]),
        "sep_to_sep": mean([to_sep[i] for i in separators]),
        "other_to_sep": mean([to_sep[i] for i in rows if i not in separators]) if separators else math.nan,
    }
    of_kind = {("kind", kind): mean([sum(a[i, j] for j in rows if kinds[j] == kind) for i in rows]) for kind in NAMES}
    return {**{(what, "all"): value for what, value in found.items()}, **of_kind}


def expected(of_text: list[tuple[Text, int | None]], head: int) -> dict[tuple[str, str], list[float]]:
    each = [naive_head(text.a[head], text.kind, at) for text, at in of_text]
    return {key: [one[key] for one in each if not math.isnan(one[key])] for key in each[0]}


@pytest.mark.parametrize("name", SHAPES)
def test_every_number_equals_a_loop_over_rows_and_keys(name: str) -> None:
    """With padding; two of the texts have no separator, one no classifying token, one a single token."""
    batch = of_kinds(extra=2)
    places = [0, 22, None, 1, 0]
    batch = replace(batch, cls=torch.tensor([-1 if at is None else at for at in places]))
    traces = traces_of(tiny(name, torch.float64), batch)
    found = cells(read("heads", traces)["heads"], "layer", "head", "what", "kind")
    assert len(found) == 3 * 4 * (len(HEADS) + len(NAMES))
    for trace in traces[1:]:
        of_text = list(zip(texts(trace), places, strict=True))
        for head in range(4):
            for (what, kind), values in expected(of_text, head).items():
                row = found[trace.layer, head + 1, what, kind]
                assert row["n"] == len(values) == len(LENGTHS) - MISSING.get(what, 0)
                assert row["value"] == pytest.approx(mean(values), abs=1e-9), (what, kind)
                assert row["sd"] == pytest.approx(np.std(values, ddof=1), abs=1e-9), (what, kind)


def test_texts_without_separator_and_without_classifying_token_have_no_such_numbers() -> None:
    batch = of_kinds((9, 5))
    kind = batch.kind.where(batch.kind != SEP, OTHER)
    batch = replace(batch, kind=kind, named=kind, cls=torch.tensor([-1, -1]))
    frame = read("heads", traces_of(tiny("bert"), batch))["heads"]
    assert not {"sep_to_sep", "other_to_sep", "entropy_cls"} & {*frame["what"]}
    assert "sep" not in {*frame["kind"]}


def test_a_text_of_separators_alone_has_no_other_to_separators() -> None:
    batch = of_kinds((4,))
    kind = torch.full_like(batch.kind, SEP)
    frame = read("heads", traces_of(tiny("bert"), replace(batch, kind=kind, named=kind)))["heads"]
    whats = frame.groupby("what")["value"]
    assert "other_to_sep" not in {*frame["what"]}
    assert whats.get_group("sep_to_sep").to_numpy(float) == pytest.approx(1.0, abs=1e-6)


@pytest.mark.parametrize("name", ["bert", "gpt2", "modernbert"])
def test_padding_changes_nothing(name: str) -> None:
    model = tiny(name, torch.float64)
    tight, loose = (read("heads", traces_of(model, of_kinds(extra=extra)))["heads"] for extra in (0, 7))
    for column in ("value", "sd", "n"):
        np.testing.assert_allclose(tight[column].to_numpy(float), loose[column].to_numpy(float), rtol=0, atol=1e-6)


def looking(weights: torch.Tensor) -> dict[str, float]:
    tokens = weights.shape[-1]
    real = torch.ones(1, tokens, dtype=torch.bool)
    batch = Batch.of_ids(torch.zeros(1, tokens, dtype=torch.long), real, at=torch.zeros(1, dtype=torch.long))
    frame = read("heads", [Trace(1, batch, weights=weights[None, None].double(), visible=real.sum(-1, keepdim=True))])["heads"]
    return dict(zip(frame["what"], frame["value"], strict=True))


def test_heads_that_look_at_themselves_at_the_previous_or_at_the_next_token_are_told() -> None:
    n = 8
    assert looking(torch.eye(n))["self"] == 1.0
    assert looking(torch.eye(n))["entropy"] == 0.0
    assert looking(torch.eye(n).roll(-1, 1))["previous"] == pytest.approx((n - 1) / n)
    assert looking(torch.eye(n).roll(1, 1))["next"] == pytest.approx((n - 1) / n)
    assert looking(torch.eye(n)[:1].expand(n, n))["first"] == 1.0


@pytest.mark.parametrize("n", [1, 2, 100])
def test_entropy_is_in_nats_and_that_of_uniform_attention_log_n(n: int) -> None:
    found = looking(torch.full((n, n), 1 / n))
    assert (found["entropy"], found["entropy_cls"]) == (
        pytest.approx(math.log(n), abs=1e-6),
        pytest.approx(math.log(n), abs=1e-6),
    )


def test_on_minilm_heads_equal_the_weights_that_transformers_returns(minilm64: LoadedModel, sentences: Corpus) -> None:
    few = Corpus.of(list(sentences)[:20], "a few")
    found = cells(measure(minilm64, few, ["heads"])["heads"], "layer", "head", "what", "kind")
    minilm64.module.set_attn_implementation("eager")
    each: dict[tuple[int, int], list[dict[tuple[str, str], float]]] = {}
    names = {101: "cls", 102: "sep"}
    for example in few:
        inputs = minilm64.tokenizer(*filter(None, (example.text, example.pair)), return_tensors="pt")
        with torch.no_grad():
            weights = minilm64.module(**inputs, output_attentions=True).attentions
        ids = inputs["input_ids"][0].tolist()
        spelled = minilm64.tokenizer.convert_ids_to_tokens(ids)
        kinds = [
            names.get(i, "punctuation" if not t.strip("#").isalnum() else "other") for i, t in zip(ids, spelled, strict=True)
        ]
        for layer in (1, 6):
            for head in (1, 12):
                told = naive_head(weights[layer - 1][0, head - 1].numpy(), kinds, 0)
                each.setdefault((layer, head), []).append(told)
    minilm64.module.set_attn_implementation("sdpa")
    for (layer, head), of_text in each.items():
        for what, kind in of_text[0]:
            values = [one[what, kind] for one in of_text]
            if kind in ("all", "cls", "sep", "punctuation", "other"):
                assert found[layer, head, what, kind]["value"] == pytest.approx(mean(values), abs=1e-9), (what, kind)


@given(st.integers(0, 2**32), st.integers(1, 4), st.integers(1, 12), st.sampled_from([torch.float32, torch.float64]))
@settings(max_examples=40, deadline=None)
def test_weights_on_all_kinds_are_one_and_nothing_leaves_its_bounds(
    seed: int, rows: int, tokens: int, dtype: torch.dtype
) -> None:
    generator = torch.Generator().manual_seed(seed)
    real = torch.arange(tokens) < torch.randint(1, tokens + 1, (rows, 1), generator=generator)
    kind = torch.randint(0, 5, (rows, tokens), generator=generator).where(real, -1)
    batch = Batch.of_ids(torch.zeros(rows, tokens, dtype=torch.long), real, at=torch.zeros(rows, dtype=torch.long))
    scores = torch.randn(rows, 2, tokens, tokens, generator=generator, dtype=dtype) * 4
    weights = scores.masked_fill(~real[:, None, None], -torch.inf).softmax(-1)
    trace = Trace(1, replace(batch, kind=kind, named=kind), weights=weights, visible=real.sum(-1, keepdim=True))
    frame = read("heads", [trace])["heads"]
    shares = frame[~frame["what"].str.startswith("entropy")]["value"]
    assert shares.between(0, 1 + 1e-5).all()
    assert frame[frame["what"].str.startswith("entropy")]["value"].between(-1e-6, math.log(tokens) + 1e-5).all()
    assert np.allclose(frame[frame["what"] == "kind"].groupby("head")["value"].sum(), 1, atol=1e-5)
