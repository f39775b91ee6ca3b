"""A session of the explorer: its numbers are those of trace, explain, attribute, measure and faithfulness."""

from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch

import conoscope as cs
from conoscope.capture.loading import LoadedModel
from conoscope.capture.recorder import verify
from conoscope.corpora import Corpus, Example
from conoscope.explaining import METHODS
from conoscope.explaining.erasing import Eraser, without
from conoscope.exploring import runs
from conoscope.exploring.replies import Turn
from conoscope.exploring.session import Session
from exploring_models import ARCHITECTURES, TEXT, session_of, small

EVERY = (*ARCHITECTURES, "deberta", "family")


@pytest.fixture(scope="module", params=EVERY)
def session(request: pytest.FixtureRequest) -> Session:
    return session_of(small(request.param))


@pytest.fixture(scope="module")
def bert() -> Session:
    return session_of(small("bert"))


def model_of(session: Session) -> LoadedModel:
    return session.opened.models[0]


def test_a_run_has_the_tokens_weights_and_answer_of_trace(session: Session) -> None:
    reply, traced = session.ask("run", {"text": TEXT}), cs.trace(model_of(session), TEXT)
    assert [token["text"] for token in reply.data["tokens"]] == list(traced.tokens)
    assert [token["word"] for token in reply.data["tokens"]] == list(traced.words)
    assert reply.data["logits"] == traced.logits.tolist()
    assert reply.data["probabilities"] == pytest.approx(list(traced.probabilities.values()), rel=1e-12)
    assert reply.data["labels"][reply.data["predicted"]] == max(
        traced.probabilities, key=lambda label: traced.probabilities[label]
    )
    for layer, weights in traced["weights"].items():
        np.testing.assert_array_equal(reply.arrays["weights"][layer - 1], weights)


def test_the_logits_of_a_run_are_the_plain_models_with_the_same_attention(session: Session) -> None:
    loaded = model_of(session)
    found = session.ask("run", {"text": TEXT}).data["logits"]
    batch = loaded.batcher(Corpus.of([])).batch([Example(TEXT)])
    assert max(verify(loaded.module, batch).values()) == 0
    before = loaded.module.config._attn_implementation
    loaded.module.set_attn_implementation("eager")
    try:
        with torch.no_grad():
            assert found == loaded.module(**batch.inputs).logits[0].tolist()
    finally:
        loaded.module.set_attn_implementation(before)


def test_norms_and_residual_are_those_of_vectors_written_out(session: Session) -> None:
    reply, left = session.ask("run", {"text": TEXT}), session.left(session.read({"text": TEXT}), Turn())
    for trace in left.layers:
        assert trace.value is not None
        assert trace.projection is not None
        assert trace.weights is not None
        value = trace.value[0].repeat_interleave(len(trace.projection.weight) // trace.value.shape[1], 0)
        f = torch.einsum("hje,hed->hjd", value.double(), trace.projection.weight.double())
        norms = trace.weights[0].double() * f.norm(dim=-1)[:, None]
        np.testing.assert_allclose(reply.arrays["norms"][trace.layer - 1], norms, rtol=1e-4, atol=1e-6)
        if "residual" in reply.arrays:
            added = trace.residual
            assert added is not None
            parts = torch.einsum("hij,hjd->ijd", trace.weights[0].double(), f)
            parts[range(len(parts)), range(len(parts))] += added[0].double()
            lengths = (parts if trace.norm is None else trace.norm.linear(parts)).norm(dim=-1)
            expected = lengths / lengths.sum(-1, keepdim=True)
            np.testing.assert_allclose(reply.arrays["residual"][trace.layer - 1], expected, rtol=1e-4, atol=1e-6)
    assert ("residual" in reply.arrays) == ("residual" in hello(session)["maps"])


def hello(session: Session) -> dict[str, Any]:
    found: dict[str, Any] = session.ask("hello", {}).data["models"][0]
    return found


def test_one_map_is_that_of_the_run(session: Session) -> None:
    whole = session.ask("run", {"text": TEXT}).arrays
    for name in hello(session)["maps"]:
        for layer, head in ((1, 1), (2, 2)):
            one = session.ask("head", {"text": TEXT, "layer": layer, "head": head, "map": name}).arrays["map"]
            expected = whole[name][layer - 1] if name == "residual" else whole[name][layer - 1, head - 1]
            np.testing.assert_array_equal(one, expected)


def test_maps_that_are_too_large_are_left_out_and_asked_for_one_by_one(bert: Session, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = bert.ask("run", {"text": TEXT}).arrays
    monkeypatch.setattr(runs, "MOST", 4 * whole["weights"].size - 1)
    bert.cache.clear()
    left = bert.ask("run", {"text": TEXT}).arrays
    bert.cache.clear()
    assert {"weights", "norms", "residual"} & set(left) == set()
    np.testing.assert_array_equal(left["thumbs"], whole["thumbs"])
    one = bert.ask("head", {"text": TEXT, "layer": 3, "head": 4, "map": "norms"}).arrays["map"]
    np.testing.assert_array_equal(one, whole["norms"][2, 3])


def test_a_thumbnail_has_the_largest_weight_of_each_cell(bert: Session) -> None:
    text = " ".join(f"w{number % 60}" for number in range(60))
    reply = bert.ask("run", {"text": text})
    weights, thumbs = reply.arrays["weights"], reply.arrays["thumbs"]
    tokens = weights.shape[-1]
    assert thumbs.shape[-1] == 32 < tokens
    for row, key in ((0, 0), (3, 17), (31, 31)):
        at = [slice(cell * tokens // 32, -(-(cell + 1) * tokens // 32)) for cell in (row, key)]
        expected = (weights[:, :, at[0], at[1]].max((-1, -2)) * 255).round()
        np.testing.assert_array_equal(thumbs[:, :, row, key], expected)


def test_entropies_and_cones_are_those_that_measure_finds_for_the_text_alone(session: Session) -> None:
    reply = session.ask("run", {"text": TEXT})
    result = cs.measure(model_of(session), [TEXT], ["sim", "attention_entropy", "cone_index:mask=real", "gates"], progress=False)
    entropy, sim, index, names = (result[name] for name in ("attention_entropy", "sim", "cone_index:mask=real", "gates.names"))
    compare(reply.arrays["entropy"], entropy[(entropy["row"] == "all") & entropy["head"].notna()])
    for site in ("key", "value"):
        rows = sim[(sim["site"] == site) & sim["head"].notna()]
        shared = reply.arrays["entropy"].shape[1] // rows["head"].nunique()  # several heads may share a key
        compare(reply.arrays[f"sim_{site}"][:, ::shared], rows)
    rows = index[(index["site"] == "context") & index["head"].notna()]
    compare(reply.arrays["sim_context"], rows.assign(value=rows["sim"]))
    for _, row in names.iterrows():
        assert reply.data["gates"][int(row["layer"]) - 1][int(row["head"]) - 1] == row["gates"]


def compare(found: np.ndarray, rows: pd.DataFrame) -> None:
    """Whether an array (layer, head) has the values of a table."""
    assert len(rows) == found.size
    for _, row in rows.iterrows():
        assert found[int(row["layer"]) - 1, int(row["head"]) - 1] == pytest.approx(row["value"], rel=1e-4, abs=1e-5)


def test_short_texts_have_no_gates(bert: Session) -> None:
    assert bert.ask("run", {"text": "w1 w2"}).data["gates"] == [[None] * 4] * 3


@pytest.mark.parametrize("method", METHODS)
def test_scores_of_words_are_those_of_explain(session: Session, method: str) -> None:
    if method == "rollout_mixing" and "residual" not in hello(session)["maps"]:
        pytest.skip("nothing is added to this model's attention")
    found = session.ask("words", {"text": TEXT, "method": method})
    expected = cs.explain(model_of(session), TEXT, method)[method]
    np.testing.assert_array_equal(found.arrays["scores"], expected.astype(np.float32))
    assert found.data["words"] == TEXT.split()


def test_a_method_may_have_options(bert: Session) -> None:
    found = bert.ask("words", {"text": TEXT, "method": "attention:layer=1"}).arrays["scores"]
    np.testing.assert_array_equal(
        found, cs.explain(model_of(bert), TEXT, "attention:layer=1").maps["attention:layer=1"].astype("f4")
    )


def test_a_deletion_curve_erases_words_as_faithfulness_does(session: Session) -> None:
    loaded, method = model_of(session), "attention"
    reply = session.ask("deletion", {"text": TEXT, "method": method})
    scores = cs.explain(loaded, TEXT, method)[method]
    assert reply.data["order"] == np.argsort(-scores, kind="stable").tolist()
    eraser = Eraser(loaded, loaded.batcher(Corpus.of([])), 4, None)
    flags = [np.isin(np.arange(len(scores)), reply.data["order"][:count]) for count in range(len(scores) + 1)]
    whole = Example(TEXT)
    texts = [without(whole, gone, None) for gone in flags]
    expected = eraser.probabilities([text for text in texts if text.words])[:, reply.data["class"]]
    np.testing.assert_allclose(reply.arrays["curve"][: len(expected)], expected, rtol=1e-4)
    evaluation = cs.faithfulness(loaded, [TEXT], [method])["faithfulness.bins"]
    half = evaluation[
        (evaluation["map"] == method) & (evaluation["metric"] == "comprehensiveness") & (evaluation["share"] == 0.5)
    ]
    fall = reply.arrays["curve"][0] - reply.arrays["curve"][-(-len(scores) // 2)]
    assert fall == pytest.approx(float(half["value"].iloc[0]), abs=1e-4)


def test_curves_begin_at_the_probability_of_the_run_and_chance_ends_where_the_method_does(session: Session) -> None:
    reply, run = session.ask("deletion", {"text": TEXT, "method": "random"}), session.ask("run", {"text": TEXT}).data
    curve, chance = reply.arrays["curve"], reply.arrays["chance"]
    assert reply.data["class"] == run["predicted"]
    assert curve[0] == pytest.approx(run["probabilities"][run["predicted"]], rel=1e-4)
    assert chance[0] == pytest.approx(curve[0], rel=1e-5)
    assert chance[-1] == pytest.approx(curve[-1], rel=1e-4, nan_ok=True)
    assert curve.shape == chance.shape == (len(TEXT.split()) + 1,)


def test_the_stream_sums_to_the_difference_of_logits_and_is_that_of_attribute(session: Session) -> None:
    if not hello(session)["attributes"]:
        with pytest.raises(cs.ConoscopeError):
            session.ask("stream", {"text": TEXT})
        return
    reply, logits = session.ask("stream", {"text": TEXT}), session.ask("run", {"text": TEXT}).data["logits"]
    arrays, data = reply.arrays, reply.data
    assert data["difference"] == logits[data["class"]] - logits[data["other"]]
    parts = np.concatenate([arrays[name].ravel() for name in ("embeddings", "heads", "forward", "bias")])
    assert np.nansum(parts, dtype=float) + data["rest"] == pytest.approx(
        data["difference"], abs=1e-5 * float(np.nansum(np.abs(parts)))
    )
    table = cs.attribute(model_of(session), [TEXT], texts=1)["attribution"]
    heads = table[table["part"] == "head"]
    compare(arrays["heads"], heads)
    by_token = cs.attribute(model_of(session), [TEXT], texts=1)["attribution.words"]
    assert arrays["tokens"].sum(dtype=float) == pytest.approx(by_token["value"].sum(), abs=1e-4)


def test_a_stream_may_be_of_other_classes(bert: Session) -> None:
    logits = bert.ask("answer", {"text": TEXT}).data["logits"]
    for one, other in ((0, 1), (1, 0), (2, 1)):
        data = bert.ask("stream", {"text": TEXT, "class": one, "other": other}).data
        assert (data["class"], data["other"]) == (one, other)
        assert data["difference"] == logits[one] - logits[other]


def test_the_stream_tells_the_cosine_with_each_direction_in_each_layer(bert: Session) -> None:
    draw = torch.Generator().manual_seed(0)
    known = {layer: torch.randn(3, 32, generator=draw, dtype=torch.float64) for layer in (0, 2, 3)}
    units = {layer: x / x.norm(dim=-1, keepdim=True) for layer, x in known.items()}
    session = session_of(model_of(bert), directions=lambda model: units)
    towards, traced = session.ask("stream", {"text": TEXT}).arrays["towards"], cs.trace(model_of(bert), TEXT)
    assert towards.shape == (4, 3)
    assert np.isnan(towards[1]).all()
    for layer in units:
        x = traced["hidden"][layer][0].astype(float)
        np.testing.assert_allclose(towards[layer], units[layer].numpy() @ x / np.linalg.norm(x), rtol=1e-5)


def test_a_pair_is_read_as_one_input_with_the_words_of_both() -> None:
    session = session_of(small("bert"))
    params = {"text": "w1 w2 w3", "pair": "good w5"}
    reply = session.ask("run", params)
    explained = cs.explain(model_of(session), Example("w1 w2 w3", pair="good w5", id="texts:1"), ["attention", "random"])
    assert reply.data["words"] == list(explained.words)
    assert max(token["word"] for token in reply.data["tokens"]) == 4
    assert reply.data["probabilities"] == pytest.approx(list(explained.probabilities.values()))
    for name, expected in explained.maps.items():
        np.testing.assert_allclose(session.ask("words", {**params, "method": name}).arrays["scores"], expected, rtol=1e-6)


def test_a_sentence_encoder_has_maps_and_no_answer(minilm: LoadedModel) -> None:
    session = session_of(minilm)
    about = hello(session)
    assert (about["classifies"], about["labels"], about["attributes"], about["reads"]) == (False, [], False, "mean")
    assert about["maps"] == ["weights", "norms", "residual"]
    reply = session.ask("run", {"text": TEXT})
    assert (reply.data["predicted"], reply.data["probabilities"], reply.data["logits"], reply.data["place"]) == (
        None,
        [],
        [],
        None,
    )
    np.testing.assert_array_equal(reply.arrays["weights"][5], cs.trace(minilm, TEXT)["weights"][6])
    assert session.ask("answer", {"text": TEXT}).data == {"predicted": None, "probabilities": [], "logits": []}
    for method in ("attention", "norms", "rollout_mixing"):
        found = session.ask("words", {"text": TEXT, "method": method}).arrays["scores"]
        np.testing.assert_array_equal(found, cs.explain(minilm, TEXT, method)[method].astype("f4"))
    for verb, params in (("stream", {}), ("deletion", {"method": "attention"}), ("words", {"method": "gradient"})):
        with pytest.raises(cs.ConoscopeError, match="is no classifier") as refused:
            session.ask(verb, {"text": TEXT, **params})
        assert "\n" not in str(refused.value)


def test_a_long_text_is_cut_and_says_so(bert: Session) -> None:
    reply = bert.ask("run", {"text": "w1 " * 200})
    assert reply.data["truncated"]
    assert len(reply.data["tokens"]) == 64
    assert not bert.ask("run", {"text": TEXT}).data["truncated"]
    scores = bert.ask("words", {"text": "w1 " * 200, "method": "attention"}).arrays["scores"]
    assert np.isnan(scores[64:]).all()
    assert np.isfinite(scores[:60]).all()


def test_between_requests_the_model_is_as_it_was(bert: Session) -> None:
    module = model_of(bert).module
    before = dict(vars(module.config)), [len(part._forward_hooks) + len(part._forward_pre_hooks) for part in module.modules()]
    plain = cs.trace(model_of(bert), TEXT)
    for verb, params in (
        ("hello", {}),
        ("run", {}),
        ("words", {"method": "gradient"}),
        ("deletion", {"method": "norms"}),
        ("stream", {}),
    ):
        bert.ask(verb, {"text": TEXT, **params})
    bert.ask("run", {"text": TEXT, "edits": {"ablate": [[1, 1]]}})
    after = dict(vars(module.config)), [len(part._forward_hooks) + len(part._forward_pre_hooks) for part in module.modules()]
    assert before == after
    np.testing.assert_array_equal(plain["hidden"][3], cs.trace(model_of(bert), TEXT)["hidden"][3])


def test_several_models_answer_by_their_numbers() -> None:
    session = session_of(small("bert"), small("distilbert"))
    for number in range(2):
        found = session.ask("answer", {"text": TEXT, "model": number}).data["logits"]
        assert found == cs.trace(session.opened.models[number], TEXT).logits.tolist()


def test_hello_says_what_can_be_asked_and_all_of_it_is_answered(session: Session) -> None:
    data = session.ask("hello", {}).data
    about = data["models"][0]
    assert about["heads"] == [len(heads) for heads in session.ask("run", {"text": TEXT}).data["gates"]]
    assert [method["name"] for method in data["methods"]] == list(METHODS)
    assert about["edits"]["context"]
    for text in data["texts"]:
        assert session.ask("answer", {"text": text}).data["predicted"] in range(len(about["labels"]))
    assert data["version"] == cs.__version__
