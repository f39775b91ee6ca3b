"""The stream against its definition, sentence by sentence, and what must not change it."""

import itertools
import math
import random
import re
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor
from transformers import PreTrainedModel

from architectures import SHAPES, padded, tiny
from conoscope.capture.batch import Batch
from conoscope.capture.loading import LoadedModel
from conoscope.capture.recorder import traces_of
from conoscope.capture.trace import Trace
from conoscope.corpora import Corpus, Example
from conoscope.measures import request
from conoscope.measures.stream import cka
from conoscope.measures.tally import Tally
from conoscope.measuring.pipeline import Options, measure
from conoscope.quantities.stream import STREAM
from conoscope.results.from_sums import table
from quantities import computed, sampled

WHAT = (*STREAM, "cka")
LENGTHS = (40, 23, 16, 9, 1)
PARTS = {
    "pure": (r"layers\.\d\.attention\.output", None),
    "bert": (r"layer\.\d\.attention\.output\.dense", r"layer\.\d\.output\.dense"),
    "gpt2": (r"h\.\d\.attn\.c_proj", r"h\.\d\.mlp\.c_proj"),
    "llama": (r"layers\.\d\.self_attn\.o_proj", r"layers\.\d\.mlp\.down_proj"),
}


def read(traces: list[Trace]) -> pd.DataFrame:
    tally = Tally.for_needs(request("stream").needs())
    for trace in traces:
        tally.add(trace)
    return table(request("stream"), tally)


def cells(frame: pd.DataFrame) -> dict[tuple[int, str], tuple[float, float, int]]:
    return {(row.layer, row.what): (row.value, row.sd, row.n) for row in frame.itertuples()}


def naive_numbers(x: np.ndarray | None, a: np.ndarray | None, m: np.ndarray | None, y: np.ndarray) -> dict[str, float]:
    """One token of one layer, as it is written."""
    mean = sum(y) / len(y)
    m2, m4 = (sum((c - mean) ** power for c in y) / len(y) for power in (2, 4))
    found = {"mean": mean, "variance": m2, "kurtosis": m4 / m2**2 - 3}
    if x is not None:
        lengths = {"residual_share": x, "attention_share": a, "forward_share": m}
        lengths = {name: math.sqrt(sum(c**2 for c in part)) for name, part in lengths.items() if part is not None}
        found |= {name: length / sum(lengths.values()) for name, length in lengths.items()}
        found["cosine"] = float(x @ y) / math.sqrt(float(x @ x) * float(y @ y))
    return found


def kernel_cka(x: np.ndarray, y: np.ndarray) -> float:
    """H(K, L) / √(H(K, K) H(L, L)) with the n × n kernels K = x xᵀ, L = y yᵀ, H the unbiased estimate of HSIC as published."""
    n, one = len(x), np.ones(len(x))

    def hsic(k: np.ndarray, m: np.ndarray) -> float:
        mixed = np.trace(k @ m) + one @ k @ one * (one @ m @ one) / ((n - 1) * (n - 2)) - 2 / (n - 2) * (one @ k @ m @ one)
        return mixed / (n * (n - 3))

    k, m = (z @ z.T * (1 - np.eye(n)) for z in (x, y))
    return float(hsic(k, m) / math.sqrt(hsic(k, k) * hsic(m, m)))


def one(batch: Batch, row: int) -> Batch:
    """One sentence of a batch, without its padding."""
    real = batch.real[row]
    alone = Batch.of_ids(batch.inputs["input_ids"][row][real][None], real[real][None])
    return replace(alone, ids=(batch.ids[row],))


class Naive:
    """A model one sentence at a time, without padding, its parts found by their names."""

    def __init__(self, model: PreTrainedModel, name: str, batch: Batch) -> None:
        self.model = model
        self.attention, self.forward = ([] if pattern is None else self._named(pattern) for pattern in PARTS[name])
        sentences = [self._reduction(one(batch, row)) for row in range(len(batch.real))]
        self.layers = [[sentence[layer] for sentence in sentences] for layer in range(len(sentences[0]))]

    def _named(self, pattern: str) -> list[torch.nn.Module]:
        return [module for name, module in self.model.named_modules() if re.search(f"(^|\\.){pattern}$", name)]

    def _reduction(self, row: Batch) -> list[dict[str, np.ndarray]]:
        """For each layer x, a, m and y of the drawn tokens."""
        returned: dict[torch.nn.Module, np.ndarray] = {}
        chosen = np.argsort(row.token_ranks[row.real].numpy())[:8]
        handles = [
            module.register_forward_hook(lambda module, _, out: returned.__setitem__(module, out[0].numpy()[chosen]))
            for module in (*self.attention, *self.forward)
        ]
        with torch.no_grad():
            outputs = self.model(input_ids=row.inputs["input_ids"][row.real][None], output_hidden_states=True, use_cache=False)
        for handle in handles:
            handle.remove()
        states = [state[0].numpy()[chosen] for state in outputs.hidden_states]
        whole = [state[0].numpy() for state in outputs.hidden_states]
        found = [{"y": states[0]}]
        for number, (x, y) in enumerate(itertools.pairwise(states)):
            pair = {"all_x": whole[number], "all_y": whole[number + 1]}
            found.append({"x": x, "a": returned[self.attention[number]], "y": y, **pair})
            if self.forward:
                found[-1]["m"] = returned[self.forward[number]]
        return found

    def cells(self) -> dict[tuple[int, str], tuple[float, float, int]]:
        found: dict[tuple[int, str], tuple[float, float, int]] = {}
        for layer, sentences in enumerate(self.layers):
            tokens = [
                naive_numbers(*(sentence[site][token] if site in sentence else None for site in "xamy"))
                for sentence in sentences
                for token in range(len(sentence["y"]))
            ]
            for what in tokens[0]:
                values = [token[what] for token in tokens]
                found[layer, what] = (float(np.mean(values)), float(np.std(values, ddof=1)), len(values))
            if layer:
                x, y = (np.concatenate([sentence[site] for sentence in sentences]) for site in ("all_x", "all_y"))
                found[layer, "cka"] = (kernel_cka(x, y), math.nan, len(x))
        return found


@pytest.mark.parametrize(("name", "tolerance"), [("pure", 1e-9), ("bert", 1e-9), ("gpt2", 1e-9), ("llama", 1e-5)])
def test_every_number_equals_its_definition_sentence_by_sentence(name: str, tolerance: float, pure: LoadedModel) -> None:
    """Llama's own softmax casts to float32."""
    model, batch = pure.module if name == "pure" else tiny(name, torch.float64), padded(LENGTHS)
    found, expected = cells(read(traces_of(model, batch, "kv"))), Naive(model, name, batch).cells()
    assert found.keys() == expected.keys()
    for key, (value, sd, n) in expected.items():
        assert found[key] == (pytest.approx(value, abs=tolerance), pytest.approx(sd, abs=tolerance, nan_ok=True), n), key


def test_at_most_eight_tokens_of_a_sentence_are_drawn() -> None:
    frame = read(traces_of(tiny("bert"), padded(LENGTHS), "kv"))
    assert set(frame[frame["what"] != "cka"]["n"]) == {8 + 8 + 8 + 8 + 1}
    assert set(frame[frame["what"] == "cka"]["n"]) == {sum(LENGTHS)}


def test_layer_0_has_coordinates_alone_and_a_layer_without_feed_forward_no_share_of_it(pure: LoadedModel) -> None:
    frame = measure(pure, [Example("the soup was cold"), Example("we loved the bread")], ["stream"])["stream"]
    assert list(frame.columns) == ["measure", "site", "layer", "head", "what", "value", "sd", "n"]
    assert set(frame["site"]) == {"hidden"}
    assert list(frame[frame["layer"] == 0]["what"]) == ["mean", "variance", "kurtosis"]
    for layer in (1, 2, 3):
        assert list(frame[frame["layer"] == layer]["what"]) == [what for what in WHAT if what != "forward_share"]


@pytest.mark.parametrize("name", SHAPES)
def test_padding_changes_nothing(name: str) -> None:
    """1e-9 in float64; 1e-5 where the model's own softmax casts to float32."""
    model = tiny(name, torch.float64)
    tight, loose = (read(traces_of(model, padded((30, 11, 4), extra), "kv")) for extra in (0, 9))
    assert_same(tight, loose, 1e-5 if name in ("llama", "modernbert") else 1e-9)


def test_left_padding_changes_nothing_in_pure_attention(pure: LoadedModel) -> None:
    right, left = (read(traces_of(pure.module, padded(LENGTHS, left=left), "kv")) for left in (False, True))
    assert_same(right, left, 1e-9)


def assert_same(one: pd.DataFrame, other: pd.DataFrame, tolerance: float) -> None:
    pd.testing.assert_frame_equal(one, other, rtol=0, atol=tolerance)


@pytest.fixture(scope="module")
def whole(pure: LoadedModel, sentences: Corpus) -> pd.DataFrame:
    return measure(pure, sentences, ["stream"])["stream"]


@pytest.mark.parametrize("size", [1, 7, 64])
def test_batch_size_changes_nothing(pure: LoadedModel, sentences: Corpus, whole: pd.DataFrame, size: int) -> None:
    assert_same(measure(pure, sentences, ["stream"], Options(batch_size=size))["stream"], whole, 1e-9)


def test_the_order_of_the_sentences_changes_nothing(pure: LoadedModel, sentences: Corpus, whole: pd.DataFrame) -> None:
    shuffled = Corpus.of(random.Random(0).sample(list(sentences), len(sentences)), "sentences")
    assert_same(measure(pure, shuffled, ["stream"])["stream"], whole, 1e-9)


def test_three_merged_shards_equal_the_whole(pure: LoadedModel, sentences: Corpus, whole: pd.DataFrame) -> None:
    one, two, three = (measure(pure, sentences, ["stream"], Options(shard=(number, 3))) for number in (2, 3, 1))
    assert_same((one + two + three)["stream"], whole, 1e-9)


def vectors(*shape: int, seed: int = 0, scale: float = 1.0, shift: float = 0.0) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64) * scale + shift


def a_trace(layer: int = 1, **sites: Tensor) -> Trace:
    real = torch.ones(sites["hidden"].shape[:2], dtype=torch.bool)
    return Trace(layer, Batch.of_ids(torch.zeros(real.shape, dtype=torch.long), real), **sites)


def values(trace: Trace) -> dict[str, float]:
    return {what: value for (_, what), (value, _, _) in cells(read([trace])).items()}


def test_a_layer_that_changes_nothing_has_cosine_1_and_cka_1() -> None:
    x = vectors(3, 10, 6)
    found = values(a_trace(before=x, hidden=x))
    assert (found["cosine"], found["cka"]) == (pytest.approx(1.0, abs=1e-12), pytest.approx(1.0, abs=1e-12))


def test_a_layer_that_turns_all_vectors_round_has_cosine_minus_1_and_cka_1() -> None:
    x = vectors(3, 10, 6)
    found = values(a_trace(before=x, hidden=-2 * x))
    assert (found["cosine"], found["cka"]) == (pytest.approx(-1.0, abs=1e-12), pytest.approx(1.0, abs=1e-12))


def test_rotation_scale_and_shift_leave_cka_as_it_is() -> None:
    x, y = vectors(3, 10, 6), vectors(3, 10, 6, seed=1)
    rotation = torch.linalg.qr(vectors(6, 6, seed=2)).Q
    expected = values(a_trace(before=x, hidden=y))["cka"]
    assert 0 < expected < 1
    for other in (y @ rotation, 7 * y, y + 3, 0.1 * y @ rotation - 5):
        assert values(a_trace(before=x, hidden=other))["cka"] == pytest.approx(expected, abs=1e-12)
        assert values(a_trace(before=other, hidden=x))["cka"] == pytest.approx(expected, abs=1e-12)


def test_cka_of_vectors_far_from_the_origin_is_exact_even_in_single_precision() -> None:
    x, y = (vectors(8, 16, 6, seed=seed, shift=1e4).float() for seed in (0, 1))
    exact = kernel_cka(*((z.double() - 1e4).flatten(0, 1).numpy() for z in (x, y)))
    assert values(a_trace(before=x, hidden=y))["cka"] == pytest.approx(exact, abs=1e-6)


def test_vectors_that_have_nothing_to_do_with_each_other_have_cka_0_however_few_they_are() -> None:
    few = [values(a_trace(before=vectors(3, 16, 64, seed=s), hidden=vectors(3, 16, 64, seed=99 + s)))["cka"] for s in range(40)]
    assert abs(sum(few) / len(few)) < 0.02


def test_cka_of_fewer_than_four_vectors_is_not_defined() -> None:
    assert math.isnan(values(a_trace(before=vectors(1, 3, 4), hidden=vectors(1, 3, 4, seed=1)))["cka"])


def test_cka_of_vectors_that_are_all_alike_is_not_defined() -> None:
    assert math.isnan(values(a_trace(before=torch.ones(1, 5, 4).double(), hidden=vectors(1, 5, 4)))["cka"])


def test_shares_are_lengths_divided_by_their_sum() -> None:
    x = torch.tensor([[[3.0, 4.0]]]).double()
    found = values(a_trace(before=x, output=-2 * x.flip(-1), forward=x, hidden=x))
    assert [found[f"{part}_share"] for part in ("residual", "attention", "forward")] == pytest.approx([0.25, 0.5, 0.25])


def test_shares_are_of_the_parts_that_are_there_and_there_are_none_of_one() -> None:
    x = vectors(1, 5, 4)
    found = values(a_trace(before=x, output=3 * x, hidden=x))
    assert (found["residual_share"], found["attention_share"]) == (pytest.approx(0.25), pytest.approx(0.75))
    assert "forward_share" not in found
    assert not any("share" in what for what in values(a_trace(before=x, hidden=x)))


def test_kurtosis_of_signs_is_minus_2_and_of_one_large_coordinate_nearly_their_number() -> None:
    signs = torch.tensor([1.0, -1.0] * 8).double()
    assert values(a_trace(hidden=signs[None, None]))["kurtosis"] == pytest.approx(-2.0, abs=1e-12)
    spike = torch.zeros(100).double()
    spike[3] = 5
    assert values(a_trace(hidden=spike[None, None]))["kurtosis"] == pytest.approx(99 + 1 / 99 - 4, abs=1e-9)


@pytest.mark.parametrize("scale", [1e-12, 1e12])
def test_kurtosis_does_not_depend_on_scale_even_in_single_precision(scale: float) -> None:
    y = vectors(1, 5, 50).float()
    assert values(a_trace(hidden=y * scale))["kurtosis"] == pytest.approx(values(a_trace(hidden=y))["kurtosis"], abs=1e-4)


def test_what_a_zero_vector_has_not_is_not_counted() -> None:
    x, y = vectors(1, 5, 4), vectors(1, 5, 4, seed=1)
    x[0, 2] = y[0, 3] = 0
    frame = read([a_trace(before=x, output=x, hidden=y)])
    counts = {what: n for (_, what), (_, _, n) in cells(frame).items()}
    shares = {"residual_share": 4, "attention_share": 4}
    assert counts == {"cosine": 3, **shares, "mean": 5, "variance": 5, "kurtosis": 4, "cka": 5}


def test_a_layer_that_was_given_another_width_has_no_residual_to_compare() -> None:
    trace = a_trace(before=vectors(1, 5, 3), output=vectors(1, 5, 4), forward=vectors(1, 5, 4), hidden=vectors(1, 5, 4))
    assert sampled("stream_pairs", trace) is None
    assert values(trace).keys() == {"attention_share", "forward_share", "mean", "variance", "kurtosis"}


def test_a_layer_without_hidden_state_has_nothing() -> None:
    trace = replace(a_trace(hidden=vectors(1, 5, 4)), hidden=None, output=vectors(1, 5, 4))
    assert computed("stream", trace, site="hidden") is None
    assert sampled("stream_pairs", trace) is None


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_half_precision_is_taken_in_single(dtype: torch.dtype) -> None:
    """Squares of coordinates of 300 do not fit into half precision."""
    y = vectors(1, 5, 400, scale=300).to(dtype)
    found, expected = values(a_trace(before=y, hidden=y)), values(a_trace(before=y.double(), hidden=y.double()))
    assert found == {what: pytest.approx(value, rel=1e-4, abs=1e-4) for what, value in expected.items()}


@given(
    st.integers(0, 2**32), st.integers(1, 5), st.integers(1, 20), st.integers(2, 9),
    st.floats(1e-2, 1e3), st.floats(-100, 100), st.booleans(), st.sampled_from([torch.float32, torch.float64]),
)  # fmt: skip
@settings(max_examples=60, deadline=None)
def test_every_number_lies_within_its_bounds(
    seed: int, rows: int, tokens: int, width: int, scale: float, shift: float, forward: bool, dtype: torch.dtype
) -> None:
    x, a, m, y = vectors(4, rows, tokens, width, seed=seed, scale=scale, shift=shift).to(dtype).unbind()
    y = torch.where(vectors(rows, tokens, 1, seed=seed) < 0, x, y)
    trace = a_trace(before=x, output=a, forward=m, hidden=y) if forward else a_trace(before=x, output=a, hidden=y)
    (found,) = computed("stream", trace, site="hidden")
    cosine, *shares, _, variance, kurtosis = found.double().unbind(-1)
    assert (cosine.abs() <= 1 + 1e-6).all()
    assert all(bool(((share >= 0) & (share <= 1)).all()) for share in shares[: 2 + forward])
    torch.testing.assert_close(torch.stack(shares).nansum(0), torch.ones(len(found)).double(), rtol=0, atol=1e-6)
    assert (variance >= 0).all()
    assert (kurtosis[~kurtosis.isnan()] >= -2 - 1e-5).all()
    value = cka(*sampled("stream_pairs", trace).values.double().chunk(2, dim=-1))
    assert math.isnan(value) or -1 - 1e-6 <= value <= 1 + 1e-6
