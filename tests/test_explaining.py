"""Maps of one text: each against its formula written out, on real architectures, and what must not change it."""

import itertools
import sys
from dataclasses import replace
from pathlib import Path

import networkx
import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from networkx.algorithms.flow import build_residual_network, shortest_augmenting_path
from torch import Tensor
from transformers import AutoConfig, AutoModelForSequenceClassification

from architectures import CAUSAL, padded, tiny
from conoscope.capture.batch import Batch
from conoscope.capture.loading import LoadedModel, load_model
from conoscope.capture.recorder import Capture
from conoscope.capture.trace import Trace
from conoscope.common.errors import MeasureError, ModelError
from conoscope.corpora import Corpus, Example, load_corpus
from conoscope.explaining import METHODS, Explaining, explain
from conoscope.explaining.base import request
from conoscope.explaining.chance import random_scores
from conoscope.explaining.flow import flows_to_inputs
from conoscope.explaining.passes import Passes, readers_of
from conoscope.explaining.rollouts import rolled, with_residual
from conoscope.explaining.words import word_scores
from conoscope.models.family import SelfAttentionForSequenceClassification, preset
from conoscope.models.tokenizer import build_tokenizer

OURS = [name for name in METHODS if name != "integrated_gradients"]
ARCHITECTURES = ("bert", "distilbert", "gpt2", "llama")


def loaded(name: str, tokenizer: LoadedModel) -> LoadedModel:
    return LoadedModel(tiny(name, torch.float64), tokenizer.tokenizer, name, ("a", "b", "c"))


def scores(model: LoadedModel, batch: Batch, *names: str) -> dict[str, Tensor]:
    maps = [request(name) for name in names]
    with Passes(model, maps) as passes:
        passed = passes(batch)
        return {wanted.name: wanted.scores(passed) for wanted in maps}


def traces(model: LoadedModel, batch: Batch) -> list[Trace]:
    found: list[Trace] = []
    with Capture(model.module, "full", whole=True) as capture:
        capture(batch, found.append)
    return [trace for trace in found if trace.weights is not None]


def batch_for(name: str, lengths: tuple[int, ...] = (11, 7, 4)) -> Batch:
    """Three texts; the classifier reads the last token of GPT-2 and Llama, and the first of the others."""
    batch = padded(lengths)
    return replace(batch, cls=batch.real.sum(-1) - 1) if name in CAUSAL else batch


def mixed(trace: Trace, row: int) -> Tensor:
    """S_ij = Σ_h α_ij f_h(x_j), written out: (i, j, d)."""
    assert trace.weights is not None
    assert trace.value is not None
    assert trace.projection is not None
    groups = trace.weights.shape[1] // trace.value.shape[1]
    value = trace.value[row].repeat_interleave(groups, 0)
    f = torch.einsum("hje,hed->hjd", value, trace.projection.weight)
    return torch.einsum("hij,hjd->ijd", trace.weights[row], f)


@pytest.mark.parametrize("name", ARCHITECTURES)
def test_attention_and_columns_are_those_that_transformers_returns(name: str, pure: LoadedModel) -> None:
    model, batch = loaded(name, pure), batch_for(name)
    found = scores(model, batch, "attention", "attention:layer=1", "columns", "columns:layer=2")
    model.module.set_attn_implementation("eager")
    with torch.no_grad():
        weights = [w.mean(1) for w in model.module(**batch.inputs, output_attentions=True).attentions]
    for row, real in enumerate(batch.real):
        n, at = int(real.sum()), int(batch.cls[row])
        for key, expected in {
            "attention": weights[-1][row, at],
            "attention:layer=1": weights[0][row, at],
            "columns": sum(w[row, :n].sum(0) for w in weights),
            "columns:layer=2": weights[1][row, :n].sum(0),
        }.items():
            torch.testing.assert_close(found[key][row, :n], expected[:n], atol=1e-9, rtol=1e-7)
        assert all(found[key][row, n:].isnan().all() for key in found)


@pytest.mark.parametrize("name", ARCHITECTURES)
def test_norms_are_lengths_of_vectors_that_add_up_to_the_output(name: str, pure: LoadedModel) -> None:
    model, batch = loaded(name, pure), batch_for(name)
    found = scores(model, batch, "norms", "norms:layer=1")
    layers = traces(model, batch)
    for row, real in enumerate(batch.real):
        n, at = int(real.sum()), int(batch.cls[row])
        for key, trace in (("norms", layers[-1]), ("norms:layer=1", layers[0])):
            parts = mixed(trace, row)
            bias = 0 if trace.projection.bias is None else trace.projection.bias
            torch.testing.assert_close(parts.sum(1)[:n] + bias, trace.output[row, :n], atol=1e-6, rtol=1e-6)
            torch.testing.assert_close(found[key][row, :n], parts[at, :n].norm(dim=-1), atol=1e-7, rtol=1e-6)


@pytest.mark.parametrize("name", ARCHITECTURES)
def test_rollouts_are_products_of_matrices_written_out(name: str, pure: LoadedModel) -> None:
    model, batch = loaded(name, pure), batch_for(name)
    found = scores(model, batch, "rollout", "rollout_legacy", "rollout_norms", "rollout_mixing")
    layers = traces(model, batch)
    for row, real in enumerate(batch.real):
        n, at = int(real.sum()), int(batch.cls[row])
        plain, norms, mixing = [], [], []
        for trace in layers:
            parts = mixed(trace, row)[:n, :n]
            plain.append(trace.weights[row].mean(0)[:n, :n])
            norms.append(parts.norm(dim=-1))
            whole = parts + torch.eye(n, dtype=torch.float64)[..., None] * trace.residual[row, :n, None]
            whole = (whole if name == "llama" else whole - whole.mean(-1, keepdim=True)) * trace.norm.gain
            mixing.append(whole.norm(dim=-1))
        identity = torch.eye(n, dtype=torch.float64)
        share = [m / m.sum(-1, keepdim=True) for m in norms]
        expected = {
            "rollout": torch.linalg.multi_dot([0.5 * m + 0.5 * identity for m in reversed(plain)])[at],
            "rollout_legacy": torch.linalg.multi_dot(list(reversed(plain))).sum(0) / n,
            "rollout_norms": torch.linalg.multi_dot([0.5 * m + 0.5 * identity for m in reversed(share)])[at],
            "rollout_mixing": torch.linalg.multi_dot([m / m.sum(-1, keepdim=True) for m in reversed(mixing)])[at],
        }
        for key, value in expected.items():
            torch.testing.assert_close(found[key][row, :n], value, atol=1e-7, rtol=1e-6)


def test_the_norm_of_a_post_norm_model_is_the_sum_of_its_parts(pure: LoadedModel) -> None:
    model, batch = loaded("bert", pure), padded((7,))
    trace = traces(model, batch)[0]
    parts = mixed(trace, 0).sum(1) + trace.projection.bias + trace.residual[0]
    layer = model.module.bert.encoder.layer[0].attention.output.LayerNorm
    scale = (parts - parts.mean(-1, keepdim=True)).square().mean(-1, keepdim=True).add(layer.eps).sqrt()
    torch.testing.assert_close(trace.norm.linear(parts) / scale + layer.bias, layer(parts), atol=1e-10, rtol=1e-10)


def test_rollout_of_identity_attention_is_the_identity() -> None:
    identity = torch.eye(5, dtype=torch.float64).expand(2, 5, 5)
    assert torch.equal(rolled(identity, [with_residual(identity)] * 4), identity)


@given(st.integers(1, 7), st.integers(1, 5), st.integers(0, 2**16))
@settings(max_examples=30, deadline=None)
def test_rows_of_a_rollout_sum_to_one(tokens: int, layers: int, seed: int) -> None:
    chance = torch.Generator().manual_seed(seed)
    drawn = torch.randn(layers, 1, tokens, tokens, generator=chance, dtype=torch.float64)
    weights = [with_residual(m) for m in drawn.softmax(-1)]
    whole = rolled(torch.eye(tokens, dtype=torch.float64)[None], weights)
    torch.testing.assert_close(whole.sum(-1), torch.ones(1, tokens, dtype=torch.float64))


def graph_of(top: np.ndarray, layers: list[np.ndarray]) -> networkx.DiGraph:
    graph, count = networkx.DiGraph(), len(layers)
    for i, width in enumerate(top):
        graph.add_edge("source", (count, i), capacity=float(width))
    for below, matrix in enumerate(layers):
        for i, j in np.ndindex(matrix.shape):
            graph.add_edge((below + 1, i), (below, j), capacity=float(matrix[i, j]))
    return graph


@given(st.integers(1, 5), st.integers(1, 3), st.integers(0, 2**16))
@settings(max_examples=25, deadline=None)
def test_flow_is_the_maximum_flow(tokens: int, layers: int, seed: int) -> None:
    chance = np.random.default_rng(seed)
    matrices = [
        m / m.sum(-1, keepdims=True) for m in chance.random((layers, tokens, tokens)) * chance.integers(0, 2, tokens) + 0.01
    ]
    top = chance.random(tokens)
    graph = graph_of(top, matrices)
    expected = [networkx.maximum_flow_value(graph, "source", (0, j)) for j in range(tokens)]
    np.testing.assert_allclose(flows_to_inputs(top, matrices), expected, atol=1e-9)


@pytest.mark.parametrize("kind", ["any", "with zeros", "with ties"])
def test_flow_is_as_exact_in_the_largest_graph(kind: str) -> None:
    chance = np.random.default_rng(1)
    drawn = chance.exponential(size=(6, 32, 32)) ** 3
    widths = {"any": drawn, "with zeros": drawn * (drawn > 1), "with ties": np.round(2 * chance.random(drawn.shape)) + 0.001}
    matrices = [(m / m.sum(-1, keepdims=True) + np.eye(32)) / 2 for m in widths[kind]]
    top = np.eye(32)[0]
    residual = build_residual_network(graph_of(top, matrices), "capacity")
    for sink, found in list(enumerate(flows_to_inputs(top, matrices)))[::8]:
        solved = shortest_augmenting_path(residual, "source", (0, sink), residual=residual, value_only=True)
        assert found == pytest.approx(solved.graph["flow_value"], abs=1e-11)


def test_nothing_flows_where_there_is_no_way() -> None:
    assert flows_to_inputs(np.zeros(3), [np.eye(3)]).tolist() == [0, 0, 0]
    assert flows_to_inputs(np.eye(3)[0], [np.eye(3)]).tolist() == [1, 0, 0]


def test_flow_is_the_smallest_cut_of_all_cuts() -> None:
    chance = np.random.default_rng(0)
    for _ in range(5):
        matrices, top = list(chance.random((2, 3, 3))), chance.random(3)
        graph = graph_of(top, matrices)
        inner = [node for node in graph if node not in ("source", (0, 0))]
        sides = ({"source", *s} for k in range(len(inner) + 1) for s in itertools.combinations(inner, k))
        least = min(sum(d["capacity"] for a, b, d in graph.edges(data=True) if a in side and b not in side) for side in sides)
        assert flows_to_inputs(top, matrices)[0] == pytest.approx(least)


def test_flow_through_one_layer_is_its_row() -> None:
    matrix = np.random.default_rng(0).dirichlet(np.ones(4), 4)
    np.testing.assert_allclose(flows_to_inputs(np.eye(4)[2], [matrix]), matrix[2])


def test_flow_is_refused_by_name_for_long_texts(pure: LoadedModel) -> None:
    with pytest.raises(MeasureError, match=r"the map flow is for texts of at most 32 tokens, and words:1 has 41; leave flow out"):
        list(explain(pure, Corpus.of([Example("soup " * 40)], "words"), ["flow"]))


@pytest.mark.parametrize("name", ["bert", "distilbert", "gpt2"])
def test_gradient_times_input_is_the_slope_along_the_word_vector(name: str, pure: LoadedModel) -> None:
    """d logit((1 + s) e_j) / ds at 0, by differences."""
    model, batch = loaded(name, pure), batch_for(name, (5, 3))
    found = scores(model, batch, "gradient")["gradient"]
    table, step = model.module.get_input_embeddings(), 1e-6

    def logits(row: int, place: int, scale: float) -> Tensor:
        def change(module: torch.nn.Module, given: object, returned: Tensor) -> Tensor:
            changed = returned.clone()
            changed[row, place] *= scale
            return changed

        handle = table.register_forward_hook(change)
        with torch.no_grad():
            answer = model.module(**batch.inputs).logits[row]
        handle.remove()
        return answer

    for row, real in enumerate(batch.real):
        target = int(logits(row, 0, 1.0).argmax())
        for place in range(int(real.sum())):
            slope = (logits(row, place, 1 + step) - logits(row, place, 1 - step))[target] / (2 * step)
            assert float(found[row, place]) == pytest.approx(float(slope), abs=1e-5)


ODD = {
    "xlnet": {"d_model": 32, "n_layer": 2, "n_head": 4, "d_inner": 64},
    "ctrl": {"n_embd": 32, "n_layer": 2, "n_head": 4, "dff": 64, "n_positions": 64},
}
"""A model that reads texts with tokens first, and one that multiplies its embeddings in place."""


@pytest.mark.parametrize("name", ODD)
def test_gradients_are_slopes_in_models_that_turn_or_change_their_embeddings(name: str, pure: LoadedModel) -> None:
    torch.manual_seed(0)
    config = AutoConfig.for_model(name, **ODD[name], vocab_size=99, initializer_range=0.3, pad_token_id=0, num_labels=3)
    module = AutoModelForSequenceClassification.from_config(config).double().eval()
    model = LoadedModel(module, pure.tokenizer, name, ("a", "b", "c"))
    ids = torch.tensor([[7, 8, 9, 10], [11, 12, 13, 14]])
    batch = Batch.of_ids(ids, torch.ones_like(ids, dtype=torch.bool))
    found, words, step = scores(model, batch, "gradient")["gradient"], module.get_input_embeddings().weight, 1e-6

    def logits(token: int, scale: float) -> Tensor:
        with torch.no_grad():
            words[token] *= scale
            answer = module(**batch.inputs).logits
            words[token] /= scale
        return answer

    for row, tokens in enumerate(ids.tolist()):
        target = int(logits(tokens[0], 1.0)[row].argmax())
        for place, token in enumerate(tokens):
            slope = (logits(token, 1 + step) - logits(token, 1 - step))[row, target] / (2 * step)
            assert float(found[row, place]) == pytest.approx(float(slope), abs=1e-5)


def test_integrated_gradients_add_up_to_the_difference_of_logits(pure: LoadedModel) -> None:
    pytest.importorskip("captum.attr", reason="Captum is not installed", exc_type=ImportError)
    batch = pure.batcher(load_corpus("bistro:test")).batch(list(load_corpus("bistro:test").first(4)))
    found = scores(pure, batch, "integrated_gradients:steps=200")["integrated_gradients:steps=200"]
    embeddings = pure.module.get_input_embeddings()
    with torch.no_grad():
        whole = pure.module(**batch.inputs).logits
        handle = embeddings.register_forward_hook(lambda m, g, out: out.where((batch.kind <= 2)[..., None], 0.0))
        empty = pure.module(**batch.inputs).logits
        handle.remove()
    target = whole.argmax(-1, keepdim=True)
    torch.testing.assert_close(found.nansum(-1), (whole - empty).gather(1, target)[:, 0], atol=1e-4, rtol=1e-3)


def test_integrated_gradients_are_refused_where_captum_is_not_there(pure: LoadedModel, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "captum.attr", None)
    with pytest.raises(ModelError, match=r"the map integrated_gradients needs Captum, .*pip install 'conoscope\[explain\]'"):
        list(explain(pure, "bistro:test", ["integrated_gradients"], Explaining(limit=1)))


def test_gradients_are_refused_for_a_model_that_does_not_classify(minilm: LoadedModel) -> None:
    with pytest.raises(ModelError, match="BertModel is no classifier, and gradients need one"):
        list(explain(minilm, "bistro:test", ["gradient"], Explaining(limit=1)))


def test_a_model_that_does_not_classify_has_maps_of_attention(minilm: LoadedModel) -> None:
    (found,) = explain(minilm, [Example("The soup was delightfully unpretentious!")], ["attention", "rollout_mixing"])
    assert found.predicted is None
    assert all(np.isfinite(values).all() and len(values) == 5 for values in found.maps.values())


def test_padding_and_neighbours_change_nothing(pure: LoadedModel) -> None:
    corpus = load_corpus("bistro:test").first(12)
    together = list(explain(pure, corpus, OURS, Explaining(batch_size=12)))
    alone = list(explain(pure, corpus, OURS, Explaining(batch_size=1)))
    assert [e.example.id for e in together] == [e.id for e in corpus]
    for one, other in zip(together, alone, strict=True):
        assert one.predicted == other.predicted
        for name in OURS:
            np.testing.assert_allclose(one.maps[name], other.maps[name], atol=1e-9)


def test_explaining_leaves_the_model_as_it_was(pure: LoadedModel) -> None:
    before = pure.module.config._attn_implementation
    batch = pure.batcher(load_corpus("bistro:test")).batch(list(load_corpus("bistro:test").first(3)))
    logits = pure.module(**batch.inputs).logits
    scores(pure, batch, "attention", "norms", "gradient")
    assert pure.module.config._attn_implementation == before
    assert torch.equal(pure.module(**batch.inputs).logits, logits)
    assert all(p.grad is None for p in pure.module.parameters())
    assert not any(module._forward_hooks for module in pure.module.modules())


def test_a_word_is_the_sum_or_the_largest_of_its_tokens_and_special_tokens_are_no_words(minilm: LoadedModel) -> None:
    example = Example("unpretentious soup")
    batch = minilm.batcher(Corpus.of([example])).batch([example])
    tokens = torch.arange(1.0, batch.real.shape[1] + 1)[None]
    of_word = [tokens[0][batch.word[0] == number] for number in (0, 1)]
    assert len(of_word[0]) > 1
    assert list(word_scores(tokens, batch, [2], "sum")[0]) == [float(t.sum()) for t in of_word]
    assert list(word_scores(tokens, batch, [2], "max")[0]) == [float(t.max()) for t in of_word]
    negative = word_scores(-tokens, batch, [2], "max")[0]
    assert list(negative) == [float((-t).max()) for t in of_word]


def test_words_that_were_cut_off_have_no_score(pure: LoadedModel) -> None:
    (found,) = explain(pure, [Example("the soup was very good")], ["attention", "random"], Explaining(max_length=4))
    assert found.seen.tolist() == [True, True, True, False, False]
    assert all(np.isnan(values).tolist() == [False, False, False, True, True] for values in found.maps.values())
    assert found.record()["maps"]["attention"][3:] == [None, None]


def test_chance_is_the_same_for_every_model_and_without_one(pure: LoadedModel, minilm: LoadedModel) -> None:
    corpus = load_corpus("bistro:test").first(5)
    for one, other, example in zip(explain(pure, corpus, ["random"]), explain(minilm, corpus, ["random"]), corpus, strict=True):
        np.testing.assert_array_equal(one.maps["random"], other.maps["random"])
        np.testing.assert_array_equal(one.maps["random"], random_scores(example).numpy())
    many = torch.cat([random_scores(Example("a " * 100, id=str(number))) for number in range(100)])
    assert 0 <= float(many.min()) <= float(many.max()) < 1
    assert float(many.mean()) == pytest.approx(0.5, abs=0.01)


def test_a_model_that_takes_the_mean_is_read_over_all_its_tokens() -> None:
    torch.manual_seed(0)
    tokenizer = build_tokenizer((e.text for e in load_corpus("bistro:train").first(50)), classifying=False)
    config = preset("tp9-positions", vocab_size=len(tokenizer), hidden_size=12)
    model = load_model(SelfAttentionForSequenceClassification(config).double(), tokenizer)
    examples = list(load_corpus("bistro:test").first(3))
    batch = model.batcher(Corpus.of([])).batch(examples)
    found = scores(model, batch, "attention", "rollout", "flow")
    for row, real in enumerate(batch.real):
        n = int(real.sum())
        last = traces(model, batch)[-1].weights[row].mean(0)[:n, :n]
        torch.testing.assert_close(found["attention"][row, :n], last.mean(0), atol=1e-7, rtol=1e-6)
        assert float(found["rollout"][row, :n].sum()) == pytest.approx(1, abs=1e-6)


def test_who_reads_is_told_by_the_wiring_and_else_by_cls() -> None:
    real = torch.tensor([[True, True, True], [True, True, False]])
    batch = Batch.of_ids(torch.ones(2, 3, dtype=torch.long), real, at=torch.tensor([1, -1]))
    assert readers_of(batch, "first").tolist() == [[1, 0, 0], [1, 0, 0]]
    assert readers_of(batch, "last").tolist() == [[0, 0, 1], [0, 1, 0]]
    found = replace(batch, cls=torch.tensor([1, 0]), reads=True)
    assert readers_of(found, "last").tolist() == [[0, 1, 0], [1, 0, 0]]  # where the model was found to read the class
    assert readers_of(found, "last", asked=True).tolist() == [[0, 0, 1], [0, 1, 0]]
    assert readers_of(batch, "last", asked=True).tolist() == [[0, 0, 1], [0, 1, 0]]
    torch.testing.assert_close(readers_of(batch, "mean"), torch.tensor([[1 / 3] * 3, [0.5, 0.5, 0]]))
    assert readers_of(batch, None).tolist() == [[0, 1, 0], [0.5, 0.5, 0]]


def test_pairs_have_the_words_of_both_texts(pure: LoadedModel) -> None:
    (found,) = explain(pure, [Example("the soup was good", "positive", "was it warm?")], ["attention"])
    assert len(found.maps["attention"]) == 7
    assert found.record()["pair"] == "was it warm?"


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("saliency", r"no map 'saliency'; known maps: attention, columns, flow, gradient"),
        ("attention:layer=0", r"the map attention has no option 'layer=0'; known: layer=last\|N"),
        ("attention:head=1", r"the map attention has no option 'head=1'"),
        ("rollout:layer=1", r"the map rollout has no option 'layer=1'; known: none"),
        ("attention:layer=9", r"no layer 9 to take a map from: the model has 3; count from 1, or say last"),
    ],
)
def test_maps_that_are_not_there_are_refused(name: str, said: str, pure: LoadedModel) -> None:
    with pytest.raises(MeasureError, match=said):
        list(explain(pure, "bistro:test", [name], Explaining(limit=1)))
    with pytest.raises(MeasureError, match="no word score 'mean'; known: max, sum"):
        Explaining(word_score="mean")


def test_every_map_is_on_the_page(pure: LoadedModel) -> None:
    page = (Path(__file__).parents[1] / "docs" / "explaining.md").read_text(encoding="utf-8")
    assert all(f"| `{name}`" in page for name in METHODS)
