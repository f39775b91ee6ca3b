"""The maps of a model against its weights by name, and what is read of them against naive references."""

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor
from transformers import AutoConfig, AutoModelForSequenceClassification, PreTrainedModel

from architectures import SHAPES, VOCABULARY, padded, tiny
from conoscope.capture.batch import Batch
from conoscope.capture.head_weights import head_weights_of, linear_map
from conoscope.capture.loading import LoadedModel
from conoscope.capture.recorder import Capture, traces_of
from conoscope.capture.trace import HeadWeights, Trace
from conoscope.common.errors import CaptureError
from conoscope.corpora import Corpus
from conoscope.measures import request
from conoscope.measures.tally import Tally
from conoscope.measuring.pipeline import Options, measure
from conoscope.models.family import SelfAttentionForSequenceClassification, preset
from conoscope.quantities.directionality import (
    NUMBERS,
    SENTENCES,
    _factors,
    basis,
    head_overlaps,
    map_numbers,
    map_values,
    numbers,
    precision,
    rank_with_transpose,
    singular_values,
    space_angles,
)
from conoscope.results.from_sums import tables_of
from conoscope.results.result import Result
from conoscope.sums.numeric import entropy_rank
from quantities import sampled

DOUBLE = torch.finfo(torch.float64).eps
SINGLE = torch.finfo(torch.float32).eps


def random(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(*shape, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))


def by_head(stored: Tensor, heads: int) -> Tensor:
    """(out, in), as a Linear stores it, to (h, d, e)."""
    return stored.detach().double().unflatten(0, (heads, -1)).mT


def of_linears(query: torch.nn.Module, key: torch.nn.Module, value: torch.nn.Module, output: torch.nn.Module) -> list[Tensor]:
    return [*(by_head(part.weight, 4) for part in (query, key, value)), by_head(output.weight.T, 4).mT]


def fused(stored: Tensor, output: Tensor) -> list[Tensor]:
    return [*(by_head(part, 4) for part in stored.chunk(3)), by_head(output.T, 4).mT]


def of_bert(model: PreTrainedModel, layer: int) -> list[Tensor]:
    attention = model.bert.encoder.layer[layer].attention
    return of_linears(attention.self.query, attention.self.key, attention.self.value, attention.output.dense)


def of_distilbert(model: PreTrainedModel, layer: int) -> list[Tensor]:
    attention = model.distilbert.transformer.layer[layer].attention
    return of_linears(attention.q_lin, attention.k_lin, attention.v_lin, attention.out_lin)


def of_albert(model: PreTrainedModel, layer: int) -> list[Tensor]:
    attention = model.albert.encoder.albert_layer_groups[0].albert_layers[0].attention
    return of_linears(attention.query, attention.key, attention.value, attention.dense)


def of_gpt2(model: PreTrainedModel, layer: int) -> list[Tensor]:
    attention = model.transformer.h[layer].attn
    return fused(attention.c_attn.weight.T, attention.c_proj.weight.T)


def of_modernbert(model: PreTrainedModel, layer: int) -> list[Tensor]:
    attention = model.model.layers[layer].attn
    return fused(attention.Wqkv.weight, attention.Wo.weight)


def of_llama(model: PreTrainedModel, layer: int) -> list[Tensor]:
    attention = model.model.layers[layer].self_attn
    query, key, value = (
        by_head(part.weight, heads) for part, heads in ((attention.q_proj, 4), (attention.k_proj, 2), (attention.v_proj, 2))
    )
    return [query, key, value, by_head(attention.o_proj.weight.T, 4).mT]


BY_NAME: dict[str, Callable[[PreTrainedModel, int], list[Tensor]]] = {
    "bert": of_bert,
    "distilbert": of_distilbert,
    "albert": of_albert,
    "gpt2": of_gpt2,
    "modernbert": of_modernbert,
    "llama": of_llama,
}
SITES = ("query", "key", "value", "output")


def assert_maps(maps: HeadWeights, expected: Sequence[Tensor]) -> None:
    for site, weight in zip(SITES, expected, strict=True):
        found = getattr(maps, site)
        assert found.dtype == torch.float64
        assert torch.equal(found, weight), site


@pytest.mark.parametrize("name", BY_NAME)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16])
def test_the_maps_are_the_weights_that_the_architecture_stores_by_name(name: str, dtype: torch.dtype) -> None:
    model = tiny(name, dtype)
    found = list(head_weights_of(model))
    assert [maps.layer for maps in found] == [1, 2, 3]
    for maps in found:
        assert_maps(maps, BY_NAME[name](model, maps.layer - 1))


def test_the_maps_of_pure_attention_are_its_weights(pure: LoadedModel) -> None:
    for maps, layer in zip(head_weights_of(pure.module), pure.module.layers, strict=True):
        own = layer.attention
        assert_maps(maps, [*(by_head(p.weight, 2) for p in (own.query, own.key, own.value)), by_head(own.output.weight.T, 2).mT])


@pytest.mark.parametrize("name", ["tp9-base", "tp9-residual", "tp9-positions", "tp9-cls"])
def test_where_the_context_is_read_by_the_feed_forward_map_that_is_w_o_and_else_there_is_none(name: str) -> None:
    torch.manual_seed(0)
    model = SelfAttentionForSequenceClassification(preset(name, vocab_size=50, hidden_size=12, num_attention_heads=3)).eval()
    for maps, layer in zip(head_weights_of(model), model.layers, strict=True):
        torch.testing.assert_close(maps.query, by_head(layer.attention.query.weight, 3), rtol=0, atol=0)
        if name == "tp9-residual":
            assert maps.output is None
        else:
            assert torch.equal(maps.output, by_head(layer.feed[0].weight.T, 3).mT)


@pytest.mark.parametrize("name", SHAPES)
def test_queries_keys_and_values_are_what_the_maps_make_of_the_input_save_for_a_bias(name: str) -> None:
    """In every architecture, at position 0: what two texts differ by there has no bias in it."""
    model = tiny(name, torch.float64)
    for maps, trace in zip(head_weights_of(model), traces_of(model, padded())[1:], strict=True):
        x = trace.input[:, 0]
        for site in ("query", "key", "value"):
            made = torch.einsum("bd,hde->bhe", x[1:] - x[:1], getattr(maps, site))
            vectors = getattr(trace, site)[:, :, 0]
            torch.testing.assert_close(vectors[1:] - vectors[:1], made, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_a_query_that_is_normalised_is_no_map_and_none_is_made_up(dtype: torch.dtype) -> None:
    torch.manual_seed(0)
    shape = {**SHAPES["llama"], "head_dim": 8, "vocab_size": VOCABULARY, "initializer_range": 0.3, "pad_token_id": 0}
    model = AutoModelForSequenceClassification.from_config(AutoConfig.for_model("qwen3", **shape), dtype=dtype).eval()
    for maps in head_weights_of(model):
        assert maps.query is None
        assert maps.key is None
        assert maps.value.shape == (2, 32, 8)
        assert maps.output.shape == (4, 8, 32)


def made_of(x: Tensor, how: Callable[[Tensor], Tensor]) -> Tensor | None:
    return linear_map(x, how(x).unflatten(-1, (2, -1)).transpose(1, 2))


def test_what_is_no_linear_map_of_its_own_token_is_left_out() -> None:
    """Though only a text's first token is looked at: a bend, a kink, another token, another tensor, a number that is none."""
    x, w = random(2, 3, 5).requires_grad_(), random(5, 8, seed=1)
    torch.testing.assert_close(made_of(x, lambda x: x @ w + 3), by_head(w.T, 2), rtol=0, atol=0)
    assert made_of(x, lambda x: torch.nn.functional.normalize(x @ w, dim=-1)) is None
    assert made_of(x, lambda x: (x @ w).relu()) is None
    assert made_of(x, lambda x: x @ w + x.roll(1, 1) @ w) is None
    assert made_of(x, lambda x: random(2, 3, 8).requires_grad_() @ random(8, 8)) is None
    assert made_of(x, lambda x: random(2, 3, 8)) is None
    assert made_of(x, lambda x: x @ w.clone().index_fill_(1, torch.tensor(0), math.inf)) is None
    assert made_of(x, lambda x: x @ w.clone().index_fill_(1, torch.tensor(0), math.nan)) is None


def test_a_bend_is_seen_even_where_both_texts_begin_with_nearly_the_same_vector() -> None:
    """In deep causal models the first token's vector hardly depends on the token, and any map is nearly linear there."""
    x, w = random(2, 3, 5), random(5, 8, seed=1)
    x[1, 0] = x[0, 0] + 1e-6 * random(5, seed=2)
    x.requires_grad_()
    assert made_of(x, lambda x: x @ w + 3) is not None
    assert made_of(x, lambda x: torch.nn.functional.normalize(x @ w, dim=-1)) is None


def test_finding_the_maps_leaves_the_model_as_it_was() -> None:
    model = tiny("bert").train()
    model.bert.encoder.layer[1].eval()
    model.bert.encoder.layer[0].requires_grad_(False)
    before = [module.training for module in model.modules()], [p.requires_grad for p in model.parameters()]
    weights = [parameter.clone() for parameter in model.parameters()]
    assert len(list(head_weights_of(model))) == 3
    assert ([module.training for module in model.modules()], [p.requires_grad for p in model.parameters()]) == before
    assert all(torch.equal(p, old) and p.grad is None for p, old in zip(model.parameters(), weights, strict=True))
    assert model.config._attn_implementation == "sdpa"
    hooks = [hook for module in model.modules() for hook in module._forward_hooks.values()]
    assert not any(hook.__module__.startswith("conoscope") for hook in hooks)


def test_the_maps_are_found_where_every_parameter_is_frozen_and_without_gradients() -> None:
    model = tiny("bert").requires_grad_(False)
    with torch.no_grad():
        for maps in head_weights_of(model):
            assert_maps(maps, of_bert(model, maps.layer - 1))


def test_a_model_off_the_attention_interface_is_refused_with_the_reason() -> None:
    torch.manual_seed(0)
    with pytest.raises(CaptureError, match="never called transformers' attention interface"):
        list(head_weights_of(SelfAttentionForSequenceClassification(preset("mean", vocab_size=50, hidden_size=12)).eval()))


def a_layer(width: int = 20, heads: int = 3, groups: int = 3, size: int = 4, out: int = 20) -> HeadWeights:
    return HeadWeights(
        1,
        random(heads, width, size, seed=1),
        random(groups, width, size, seed=2),
        random(groups, width, size, seed=3),
        random(heads, size, out, seed=4),
    )


def products(maps: HeadWeights, map: str) -> list[np.ndarray]:
    """The d × d matrix of each head."""
    shared = len(maps.query) // len(maps.key)
    if map == "query-key":
        return [(maps.query[h] @ maps.key[h // shared].T).numpy() for h in range(len(maps.query))]
    return [(maps.value[h // shared] @ maps.output[h]).numpy() for h in range(len(maps.query))]


def naive(matrix: np.ndarray, eps: float = DOUBLE) -> dict[str, float]:
    """Every number of a matrix as it is written, from the matrix itself."""
    s = np.linalg.svd(matrix, compute_uv=False)
    p = s[s > 0] / s.sum()
    rank = int((s > s[0] * max(matrix.shape) * eps).sum())
    skew = ((matrix - matrix.T) ** 2).sum() / 4 / (matrix**2).sum() if matrix.shape[0] == matrix.shape[1] else math.nan
    return {
        "effective_rank": math.exp(-(p * np.log(p)).sum()),
        "rank": rank,
        "largest": s[0],
        "top_share": s[0] ** 2 / (s**2).sum(),
        "skew_share": skew,
    }


@pytest.mark.parametrize("map", ["query-key", "value-output"])
@pytest.mark.parametrize("groups", [1, 2, 4])
def test_every_number_of_a_map_equals_that_of_the_whole_matrix(map: str, groups: int) -> None:
    maps = a_layer(heads=4, groups=groups)
    found, values = map_numbers(maps, map, "head").value, map_values(maps, map).value
    for head, matrix in enumerate(products(maps, map)):
        expected = [*naive(matrix).values(), np.linalg.matrix_rank(matrix + matrix.T), math.nan]
        np.testing.assert_allclose(found[head], expected, rtol=1e-9, atol=1e-9)
        np.testing.assert_allclose(values[head], np.linalg.svd(matrix, compute_uv=False)[:4], rtol=1e-9)


@pytest.mark.parametrize("map", ["query-key", "value-output"])
@pytest.mark.parametrize("heads", [3, 8])
def test_every_number_of_the_sum_over_heads_equals_that_of_the_whole_matrix(map: str, heads: int) -> None:
    """With three heads of four the ranks add up to 12 of 20, with eight they cannot."""
    maps = a_layer(heads=heads, groups=heads)
    matrix = sum(products(maps, map))
    (found,) = map_numbers(maps, map, "whole").value
    expected = [*naive(matrix).values(), np.linalg.matrix_rank(matrix + matrix.T), 4 * heads]
    np.testing.assert_allclose(found, expected, rtol=1e-9, atol=1e-9)
    assert float(found[NUMBERS.index("rank")]) == min(4 * heads, 20)


def test_a_map_to_another_width_has_no_skew_part() -> None:
    maps = a_layer(out=15)
    found = map_numbers(maps, "value-output", "head").value
    assert found[:, NUMBERS.index("skew_share") : -1].isnan().all()
    expected = [naive(matrix)["effective_rank"] for matrix in products(maps, "value-output")]
    np.testing.assert_allclose(found[:, 0], expected, rtol=1e-9)


def test_what_was_not_found_is_left_out() -> None:
    maps = replace(a_layer(), query=None, output=None)
    assert map_numbers(maps, "query-key", "head") is None
    assert map_numbers(maps, "value-output", "whole") is None
    assert map_values(maps, "query-key") is None
    assert space_angles(maps, "query-value") is None
    assert head_overlaps(maps, "output") is None
    assert space_angles(maps, "key-value").value.shape == (3, 3)


def test_random_queries_and_keys_have_scores_of_rank_e_and_a_symmetric_part_of_rank_2e() -> None:
    """METHODS 20.11, from the factors and from the n × n matrix; with queries like keys it is e again."""
    q, k = random(5, 40, 8), random(5, 40, 8, seed=1)
    assert numbers(q, k, DOUBLE)[:, NUMBERS.index("rank")].tolist() == [8] * 5
    assert rank_with_transpose(q, k, DOUBLE).tolist() == [16] * 5
    scores = q @ k.mT
    assert torch.linalg.matrix_rank(scores).tolist() == [8] * 5
    assert torch.linalg.matrix_rank(scores + scores.mT).tolist() == [16] * 5
    assert rank_with_transpose(q, q @ random(8, 8, seed=2), DOUBLE).tolist() == [8] * 5


def test_the_rank_doubles_only_where_the_spaces_meet_in_nothing() -> None:
    w = random(1, 20, 4)
    shared = torch.cat((w[..., :1], random(1, 20, 3, seed=1)), dim=-1)
    assert float(rank_with_transpose(w, random(1, 20, 4, seed=1), DOUBLE)) == 8
    assert float(rank_with_transpose(w, shared, DOUBLE)) == 7


@pytest.mark.parametrize(("turn", "expected"), [(1.0, 0.0), (-1.0, 1.0)])
def test_a_symmetric_map_has_no_skew_share_and_a_skew_one_no_other(turn: float, expected: float) -> None:
    one, other = random(1, 9, 2), random(1, 9, 2, seed=1)
    a, b = torch.cat((one, other), dim=-1), torch.cat((other, turn * one), dim=-1)
    assert float(numbers(a, b, DOUBLE)[0, NUMBERS.index("skew_share")]) == pytest.approx(expected, abs=1e-12)
    assert float(rank_with_transpose(a, b, DOUBLE)) == (4 if turn > 0 else 0)


def test_effective_rank_is_that_of_the_dossier() -> None:
    assert float(entropy_rank(torch.tensor([3.0, 1.0, 1.0, 0.0], dtype=torch.float64))) == pytest.approx(2.586409, abs=1e-6)
    assert float(entropy_rank(torch.ones(7, dtype=torch.float64))) == pytest.approx(7)
    assert bool(entropy_rank(torch.zeros(7, dtype=torch.float64)).isnan())


shapes = st.tuples(st.integers(1, 12), st.integers(1, 6), st.integers(0, 6), st.integers(0, 2**16), st.floats(-1, 1))


@settings(max_examples=100, deadline=None)
@given(shapes)
def test_shares_lie_between_0_and_1_ranks_below_the_width_and_no_rank_more_than_doubles(shape: tuple[int, ...]) -> None:
    """Also of maps of less than full rank, and of those that are nearly symmetric or skew."""
    n, e, rank, seed, mix = shape
    a = random(n, rank, seed=seed) @ random(rank, e, seed=seed + 1)
    b = random(n, e, seed=seed + 2) * (1 - abs(mix)) + a * mix
    effective, found, largest, top, skew = numbers(a, b, SINGLE).tolist()
    assert found <= min(n, e, rank)
    assert float(rank_with_transpose(a, b, SINGLE)) <= 2 * found
    if found:
        assert 1 - 1e-12 <= effective <= min(n, e) + 1e-9
        assert 0 <= top <= 1 + 1e-12
        assert 0 <= skew <= 1
        assert largest > 0


@settings(max_examples=50, deadline=None)
@given(shapes)
def test_overlaps_and_angles_lie_within_their_bounds(shape: tuple[int, ...]) -> None:
    n, e, rank, seed, mix = shape
    one = (random(n, rank, seed=seed) @ random(rank, e, seed=seed + 1)).expand(2, n, e)
    other = random(2, n, e, seed=seed + 2) * (1 - abs(mix)) + one * mix
    maps = HeadWeights(1, one, other, other, None)
    overlap, smallest, largest = space_angles(maps, "query-key").value.unbind(-1)
    defined = ~overlap.isnan()
    assert ((overlap > -1e-9) & (overlap < 1 + 1e-9))[defined].all()
    assert ((smallest >= 0) & (smallest <= largest) & (largest <= 90))[defined].all()
    between = head_overlaps(maps, "key").value
    assert ((between > -1e-9) & (between < 1 + 1e-9))[~between.isnan()].all()


def test_principal_angles_are_those_that_the_spaces_were_built_with() -> None:
    frame = torch.linalg.qr(random(20, 8)).Q
    turned = torch.tensor([0.1, 0.4, 0.9, 1.5], dtype=torch.float64)
    other = frame[:, :4] * turned.cos() + frame[:, 4:] * turned.sin()
    maps = replace(
        a_layer(heads=1, groups=1), query=(frame[:, :4] @ random(4, 4))[None], key=(other @ random(4, 4, seed=1))[None]
    )
    overlap, smallest, largest = space_angles(maps, "query-key").value[0].tolist()
    assert overlap == pytest.approx(float(turned.cos().square().mean()), abs=1e-12)
    assert (smallest, largest) == (pytest.approx(math.degrees(0.1)), pytest.approx(math.degrees(1.5)))


def test_overlap_between_heads_is_one_for_the_same_space_and_none_for_orthogonal_ones() -> None:
    frame = torch.linalg.qr(random(20, 8)).Q
    w = torch.stack((frame[:, :4], frame[:, 4:], frame[:, :4] @ random(4, 4)))
    expected = torch.tensor([[1.0, 0.0, 1.0], [0.0, 1.0, 0.0], [1.0, 0.0, 1.0]], dtype=torch.float64)
    for space, maps in (("query", replace(a_layer(), query=w)), ("output", replace(a_layer(), output=w.mT))):
        torch.testing.assert_close(head_overlaps(maps, space).value, expected, rtol=0, atol=1e-12)


def test_overlap_between_heads_equals_the_norm_of_the_product_of_projectors() -> None:
    maps = a_layer()
    projectors = [(w @ torch.linalg.pinv(w)).numpy() for w in maps.value]
    expected = [[np.trace(one @ other) / 4 for other in projectors] for one in projectors]
    np.testing.assert_allclose(head_overlaps(maps, "value").value, expected, rtol=1e-9)


def test_a_space_of_less_than_full_dimension_is_compared_in_its_own_dimension_and_an_empty_one_not_at_all() -> None:
    """A basis by QR alone would fill the rest with directions that the weights do not have."""
    query = random(3, 20, 4)
    query[0, :, 1:], query[1] = query[0, :, :1], 0
    maps = replace(a_layer(), query=query, key=query)
    assert basis(query, DOUBLE)[1].tolist() == [1, 0, 4]
    found = space_angles(maps, "query-key").value
    torch.testing.assert_close(found[[0, 2], 0], torch.ones(2, dtype=torch.float64), rtol=0, atol=1e-12)
    assert found[1].isnan().all()
    assert found[0, 2] < 1e-5
    assert head_overlaps(maps, "query").value[1].isnan().all()
    assert map_numbers(maps, "query-key", "head").value[1, 0].isnan()


def test_rounding_in_single_precision_adds_no_rank() -> None:
    """Weights of rank 3, rounded: in double precision their noise would count as full rank."""
    exact = random(1, 30, 3) @ random(3, 8, seed=1)
    maps = replace(a_layer(width=30, heads=1, groups=1, size=8), query=exact.float().double())
    assert precision(maps.query) == SINGLE
    assert precision(exact) == DOUBLE
    rank = NUMBERS.index("rank")
    single = replace(maps, key=maps.key.float().double())
    assert float(map_numbers(single, "query-key", "head").value[0, rank]) == 3
    assert float(numbers(single.query, single.key, DOUBLE)[0, rank]) == 8


def test_singular_values_of_what_is_not_finite_are_not_defined() -> None:
    q = random(2, 6, 3)
    q[0, 2, 1] = math.inf
    assert singular_values(q, random(2, 6, 3, seed=1)).isnan().any(-1).tolist() == [True, False]
    found = numbers(q, random(2, 6, 3, seed=1), DOUBLE)
    assert found[0].isnan().all()
    assert not found[1].isnan().any()


def test_the_number_of_threads_is_left_as_it_was() -> None:
    before = torch.get_num_threads()
    try:
        torch.set_num_threads(2)
        map_numbers(a_layer(), "query-key", "head")
        space_angles(a_layer(), "query-key")
        assert torch.get_num_threads() == 2
    finally:
        torch.set_num_threads(before)


@pytest.mark.parametrize("name", ["bert", "gpt2", "llama"])
def test_the_numbers_of_scores_equal_those_of_each_sentence_s_own_matrix(name: str) -> None:
    batch = padded((24, 7, 1))
    for trace in traces_of(tiny(name, torch.float64), batch, "kv")[1:]:
        sample = sampled("score_numbers", trace)
        places = [int(text) for text in sample.texts()]
        for row, values in zip(places, sample.values.unflatten(1, (4, -1)), strict=True):
            n, shared = int(batch.real[row].sum()), 4 // trace.key.shape[1]
            for head in range(4):
                scores = (trace.query[row, head, :n] @ trace.key[row, head // shared, :n].T).numpy()
                np.testing.assert_allclose(values[head], list(naive(scores).values()), rtol=1e-9, atol=1e-9)


def test_padding_does_not_change_the_numbers_of_scores() -> None:
    model = tiny("bert", torch.float64)
    for tight, loose in zip(traces_of(model, padded()), traces_of(model, padded(extra=9)), strict=True):
        if tight.layer:
            torch.testing.assert_close(
                sampled("score_numbers", tight).values, sampled("score_numbers", loose).values, rtol=1e-9, atol=1e-9
            )


def test_only_sentences_that_the_sample_could_still_take_are_looked_at(monkeypatch: pytest.MonkeyPatch) -> None:
    rows = SENTENCES + 20
    ids = torch.arange(rows * 3).view(rows, 3)
    batch = Batch.of_ids(ids, torch.ones_like(ids, dtype=torch.bool))
    trace = Trace(1, batch, query=random(rows, 2, 3, 4), key=random(rows, 2, 3, 4, seed=1))
    looked: list[Tensor] = []
    monkeypatch.setattr(
        "conoscope.quantities.directionality._factors", lambda *given: looked.append(given[0]) or _factors(*given)
    )
    sample = sampled("score_numbers", trace)
    assert len(looked) == len(sample.ranks) == SENTENCES
    assert torch.equal(sample.ranks, batch.example_ranks.sort().values[:SENTENCES])
    again = replace(trace, batch=replace(batch, ids=tuple(f"other {row}" for row in range(rows))))
    both = sampled("score_numbers", trace, again)
    ranks = torch.cat((batch.example_ranks, again.batch.example_ranks)).sort().values
    assert torch.equal(both.ranks, ranks[:SENTENCES])
    assert len(looked) == 2 * SENTENCES + int((again.batch.example_ranks <= ranks[SENTENCES - 1]).sum())
    assert sampled("score_numbers", replace(trace, key=None)) is None


def assert_same(one: Result, other: Result) -> None:
    assert one.tables.keys() == other.tables.keys()
    for name, frame in one.tables.items():
        for column in frame:
            left, right = frame[column], other.tables[name][column]
            if left.dtype.kind == "f":
                np.testing.assert_allclose(left.to_numpy(float), right.to_numpy(float), rtol=1e-9, atol=1e-9)
            else:
                assert left.equals(right), column


@pytest.fixture(scope="module")
def measured(pure: LoadedModel, sentences: Corpus) -> Result:
    return measure(pure, sentences, ["directionality"])


@pytest.mark.parametrize("size", [1, 7, 64])
def test_batch_size_and_order_change_nothing(pure: LoadedModel, sentences: Corpus, measured: Result, size: int) -> None:
    turned = Corpus.of(list(sentences)[::-1], "sentences")
    assert_same(measure(pure, turned, ["directionality"], Options(batch_size=size)), measured)


def test_merged_shards_equal_the_whole(pure: LoadedModel, sentences: Corpus, measured: Result) -> None:
    first, second = (measure(pure, sentences, ["directionality"], Options(shard=(number, 2))) for number in (1, 2))
    assert_same(second + first, measured)


def test_the_weights_alone_are_enough(pure: LoadedModel, measured: Result, tmp_path: Path) -> None:
    alone = measure(pure, None, ["directionality"], out=tmp_path / "out")
    assert set(alone["directionality"]["map"]) == {"query-key", "value-output"}
    assert set(measured["directionality"]["map"]) == {"query-key", "value-output", "scores"}
    both = measured["directionality"]
    assert alone["directionality"]["value"].tolist() == both[both["map"] != "scores"]["value"].tolist()
    assert set(alone.tables) == {f"directionality{table}" for table in ("", ".singular_values", ".angles", ".heads")}
    assert_same(Result.load(tmp_path / "out"), alone)


def test_the_tables_hold_what_the_quantities_say(pure: LoadedModel, measured: Result) -> None:
    maps = list(head_weights_of(pure.module))[1]
    frame = measured["directionality"]
    here = frame[(frame["layer"] == 2) & (frame["map"] == "query-key")]
    for head, matrix in enumerate(products(maps, "query-key"), 1):
        row = here[here["head"] == head].iloc[0]
        for column, expected in naive(matrix).items():
            assert row["value" if column == "effective_rank" else column] == pytest.approx(expected, rel=1e-9)
        assert (row["rank"], row["rank_with_transpose"], row["n"]) == (12, 24, 1)
    (whole,) = here[here["head"].isna()].itertuples()
    assert (whole.rank, whole.heads_rank) == (24, 24)
    places = measured["directionality.singular_values"]
    chosen = places[(places["layer"] == 2) & (places["map"] == "query-key") & (places["head"] == 1)]
    assert chosen["place"].tolist() == list(range(1, 13))
    np.testing.assert_allclose(chosen["value"], np.linalg.svd(products(maps, "query-key")[0], compute_uv=False)[:12], rtol=1e-9)
    assert chosen["share"].sum() == pytest.approx(1)
    heads = measured["directionality.heads"]
    assert set(zip(heads["head"], heads["other"], strict=True)) == {(1, 2)}
    assert set(measured["directionality.angles"]["spaces"]) == {"query-key", "query-value", "key-value"}


def test_scores_are_the_mean_over_the_sentences_of_the_sample(pure: LoadedModel, sentences: Corpus, measured: Result) -> None:
    frame = measured["directionality"]
    found = frame[(frame["map"] == "scores") & (frame["layer"] == 1)].set_index("head")
    batcher, each = pure.batcher(sentences, None), []
    with Capture(pure.module, "kv") as capture:
        for example in sentences:
            traces: list[Trace] = []
            capture(batcher.batch([example]), traces.append)
            each.append([naive((q @ k.T).numpy()) for q, k in zip(traces[1].query[0], traces[1].key[0], strict=True)])
    ranks = [int(batcher.batch([example]).example_ranks[0]) for example in sentences]
    each = [each[row] for row in np.argsort(ranks)[:SENTENCES]]
    for head in (1, 2):
        values = [sentence[head - 1]["effective_rank"] for sentence in each]
        assert found["value"][head] == pytest.approx(np.mean(values), rel=1e-9)
        assert found["sd"][head] == pytest.approx(np.std(values, ddof=1), rel=1e-9)
        assert found["skew_share"][head] == pytest.approx(np.mean([s[head - 1]["skew_share"] for s in each]), rel=1e-9)
        assert found["n"][head] == SENTENCES


def test_a_map_that_is_none_gives_no_row_and_the_others_do() -> None:
    tally = Tally.for_needs(request("directionality").needs())
    tally.add(replace(a_layer(), query=None))
    tables = tables_of(request("directionality"), tally)
    assert set(tables["directionality"]["map"]) == {"value-output"}
    assert set(tables["directionality.angles"]["spaces"]) == {"key-value"}
    assert set(tables["directionality.heads"]["space"]) == {"key", "value", "output"}


def test_the_weights_are_found_under_inference_mode_too(pure: LoadedModel) -> None:
    with torch.inference_mode():
        found = measure(pure, None, ["directionality"])
    assert set(found.tables) == {f"directionality{table}" for table in ("", ".singular_values", ".angles", ".heads")}


def test_spaces_that_are_the_same_are_at_an_angle_of_zero() -> None:
    w = random(1, 6, 6)
    found = space_angles(HeadWeights(1, w, 2 * w, None, None), spaces="query-key").value
    assert found[0].tolist() == [pytest.approx(1.0, abs=1e-12), 0.0, 0.0]
