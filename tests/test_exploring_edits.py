"""Edits in the explorer: erased and replaced words, ablated heads, steering; each against the same done by hand."""

import copy
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

import conoscope as cs
from conoscope.capture.loading import LoadedModel, load_model
from conoscope.causes.editor import Editor
from conoscope.causes.edits import Edit, zeroed
from conoscope.corpora import Corpus, Example
from conoscope.explaining.erasing import without
from conoscope.exploring.replies import Turn
from conoscope.exploring.session import Session
from exploring_models import ARCHITECTURES, TEXT, session_of, small

EVERY = (*ARCHITECTURES, "deberta", "albert", "family")
HEADS = [[1, 2], [2, 1], [2, 2]]


@pytest.fixture(scope="module", params=EVERY)
def session(request: pytest.FixtureRequest) -> Session:
    return session_of(small(request.param))


@pytest.fixture(scope="module")
def bert() -> Session:
    return session_of(small("bert"))


def model_of(session: Session) -> LoadedModel:
    return session.opened.models[0]


def edited(session: Session, **edits: Any) -> Any:
    return session.ask("run", {"text": TEXT, "edits": edits})


def without_heads(loaded: LoadedModel) -> LoadedModel:
    """A copy of a BERT whose heads HEADS add nothing, because W_O is 0 for them."""
    module = copy.deepcopy(loaded.module)
    with torch.no_grad():
        for layer, head in HEADS:
            module.bert.encoder.layer[layer - 1].attention.output.dense.weight[:, 8 * (head - 1) : 8 * head] = 0
    return load_model(module, loaded.tokenizer)


def test_erased_words_become_what_faithfulness_makes_of_them_and_others_keep_their_numbers(session: Session) -> None:
    erased = [0, 3, 4]
    reply = edited(session, erase=erased)
    gone = np.isin(np.arange(len(TEXT.split())), erased)
    left = cs.trace(model_of(session), without(Example(TEXT), gone, None).text)
    assert reply.data["logits"] == left.logits.tolist()
    np.testing.assert_array_equal(reply.arrays["weights"][0], left["weights"][1])
    kept = np.flatnonzero(~gone)
    assert [token["word"] for token in reply.data["tokens"]] == [int(kept[word]) if word >= 0 else -1 for word in left.words]
    assert reply.data["words"] == TEXT.split()
    scores = session.ask("words", {"text": TEXT, "method": "attention", "edits": {"erase": erased}}).arrays["scores"]
    np.testing.assert_array_equal(np.isnan(scores), gone)
    np.testing.assert_array_equal(scores[~gone], cs.explain(model_of(session), left.text, "attention")["attention"].astype("f4"))


def test_a_word_is_replaced_by_one_by_several_or_by_none(bert: Session) -> None:
    for word, said, numbers in (("good", "good", [3]), ("very good", "very good", [3, 3]), ("", "", [])):
        text = " ".join(["w1 w2 w3", said, "w5 good w7 w8 w9 w10 w11"]).replace("  ", " ")
        reply = edited(bert, replace={"3": word})
        assert reply.data["logits"] == cs.trace(model_of(bert), text).logits.tolist()
        assert [token["word"] for token in reply.data["tokens"] if token["word"] == 3] == numbers
        assert reply.data["words"][3] == word
    scores = bert.ask("words", {"text": TEXT, "method": "norms", "edits": {"replace": {"3": "very good"}}}).arrays["scores"]
    explained = cs.explain(model_of(bert), "w1 w2 w3 very good w5 good w7 w8 w9 w10 w11", "norms")["norms"]
    assert scores[3] == pytest.approx(explained[3] + explained[4], rel=1e-6)
    np.testing.assert_allclose(scores[4:], explained[5:], rtol=1e-6)


def test_words_of_both_texts_of_a_pair_are_edited_by_their_numbers(bert: Session) -> None:
    params = {"text": "w1 w2 w3", "pair": "good w5", "edits": {"erase": [1], "replace": {"3": "very"}}}
    expected = bert.ask("run", {"text": "w1 w3", "pair": "very w5"}).data
    found = bert.ask("run", params).data
    assert found["logits"] == expected["logits"]
    assert [token["word"] for token in found["tokens"]] == [
        {1: 2, 2: 3, 3: 4}.get(t["word"], t["word"]) for t in expected["tokens"]
    ]


def test_text_without_edits_of_words_keeps_its_white_space(bert: Session) -> None:
    spaced = "w1   w2\tw3\nw5"
    for edits in ({}, {"ablate": [[1, 1]]}):
        assert bert.left(bert.read({"text": spaced, "edits": edits}), Turn()).batch.texts == (spaced,)
    assert bert.left(bert.read({"text": spaced, "edits": {"erase": [1]}}), Turn()).batch.texts == ("w1 w3 w5",)


def test_an_ablated_run_leaves_what_a_model_without_these_heads_leaves(bert: Session) -> None:
    reply, by_hand = edited(bert, ablate=HEADS), session_of(without_heads(model_of(bert))).ask("run", {"text": TEXT})
    np.testing.assert_allclose(reply.data["logits"], by_hand.data["logits"], rtol=1e-5)
    for name in ("weights", "norms", "residual", "entropy", "sim_key", "sim_value"):
        np.testing.assert_allclose(reply.arrays[name], by_hand.arrays[name], rtol=1e-4, atol=1e-6, err_msg=name)
    assert reply.data["logits"] != bert.ask("run", {"text": TEXT}).data["logits"]


def test_what_is_kept_of_an_ablated_run_is_what_the_edits_left(session: Session) -> None:
    given = session.read({"text": TEXT, "edits": {"ablate": [[2, 2]]}})
    left, plain = session.left(given, Turn()), session.left(session.read({"text": TEXT}), Turn())
    assert left.layers[1].context is not None
    assert not left.layers[1].context[:, 1].any()
    assert left.layers[1].context[:, 0].any()
    for one, other in zip(left.traces[:2], plain.traces[:2], strict=True):
        assert torch.equal(one.hidden, other.hidden)  # type: ignore[arg-type]
    assert not torch.equal(left.layers[-1].hidden, plain.layers[-1].hidden)  # type: ignore[arg-type]
    np.testing.assert_array_equal(session.ask("run", {"text": TEXT, "edits": {"ablate": [[2, 2]]}}).arrays["norms"][1, 1], 0)


def test_the_answer_without_heads_is_that_of_an_editor(session: Session) -> None:
    loaded = model_of(session)
    batch = loaded.batcher(Corpus.of([])).batch([Example(TEXT)])
    with Editor(loaded.module) as editor:
        expected = editor.run(batch, [Edit("context", layer, zeroed(), head) for layer, head in HEADS])[0]
    found = session.ask("answer", {"text": TEXT, "edits": {"ablate": HEADS}}).data["logits"]
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-6)
    assert session.ask("run", {"text": TEXT, "edits": {"ablate": HEADS}}).data["logits"] == found


@contextmanager
def averaged_by_hand(module: nn.Module, head: int) -> Iterator[None]:
    """Context in which what W_O is given of a head is the mean over tokens."""

    def change(part: nn.Module, given: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
        x = given[0].clone()
        mine = slice(8 * (head - 1), 8 * head)
        x[..., mine] = x[..., mine].mean(1, keepdim=True)
        return (x, *given[1:])

    handle = module.register_forward_pre_hook(change)
    try:
        yield
    finally:
        handle.remove()


def test_a_head_may_become_its_mean_over_the_text(bert: Session) -> None:
    loaded = model_of(bert)
    with averaged_by_hand(loaded.module.bert.encoder.layer[1].attention.output.dense, 3):
        expected = cs.trace(loaded, TEXT)
    reply = edited(bert, ablate=[[2, 3]], how="mean")
    np.testing.assert_allclose(reply.data["logits"], expected.logits, rtol=1e-5)
    np.testing.assert_allclose(reply.arrays["weights"][2], expected["weights"][3], rtol=1e-4, atol=1e-7)
    assert reply.arrays["sim_context"][1, 2] == pytest.approx(1, abs=1e-5)


def steering(loaded: LoadedModel) -> tuple[Session, Tensor]:
    """A session that knows a direction for each of three classes in layers 0 to 3, and these directions."""
    draw = torch.Generator().manual_seed(0)
    units = torch.nn.functional.normalize(torch.randn(3, 32, generator=draw, dtype=torch.float64), dim=-1)
    return session_of(loaded, directions=lambda model: dict.fromkeys(range(4), units)), units


@pytest.mark.parametrize("name", ARCHITECTURES)
@pytest.mark.parametrize("layer", [1, 2])
def test_steering_turns_what_is_classified_from_by_the_angle_towards_the_class(name: str, layer: int) -> None:
    session, units = steering(small(name))
    plain = session.left(session.read({"text": TEXT}), Turn())
    old = plain.pooled(plain.traces[layer].hidden).double()  # type: ignore[arg-type]
    for angle in (40.0, -25.0):
        edits = {"steer": {"layer": layer, "to": 1, "angle": angle}}
        left = session.left(session.read({"text": TEXT, "edits": edits}), Turn())
        new = left.pooled(left.traces[layer].hidden).double()  # type: ignore[arg-type]
        assert float(new.norm()) == pytest.approx(float(old.norm()), rel=1e-5)
        turned, towards = (torch.rad2deg(torch.arccos(x @ y / x.norm() / y.norm())) for x, y in ((old, new), (old, units[1])))
        assert float(turned) == pytest.approx(abs(angle), abs=0.01)
        assert float(torch.rad2deg(torch.arccos(new @ units[1] / new.norm()))) == pytest.approx(float(towards) - angle, abs=0.01)
        others = [at for at in range(len(left.words)) if at != left.place]
        assert torch.equal(left.traces[layer].hidden[0, others], plain.traces[layer].hidden[0, others])  # type: ignore[index]
        assert left.answer.tolist() != plain.answer.tolist()
        assert session.ask("answer", {"text": TEXT, "edits": edits}).data["logits"] == left.answer[0].tolist()


def test_steering_by_nothing_is_no_edit(bert: Session) -> None:
    session, _ = steering(model_of(bert))
    plain = session.ask("run", {"text": TEXT}).data["logits"]
    assert session.ask("run", {"text": TEXT, "edits": {"steer": {"layer": 1, "to": 1, "angle": 0}}}).data["logits"] == plain


def test_a_steered_run_follows_its_direction(bert: Session) -> None:
    """Directions of texts that are still being measured change; what was kept of others is not shown."""
    known = {1: torch.eye(32, dtype=torch.float64)[:3]}
    session = session_of(model_of(bert), directions=lambda model: known)
    params = {"text": TEXT, "edits": {"steer": {"layer": 1, "to": 1, "angle": 60}}}
    before = session.ask("run", params).data["logits"]
    assert session.ask("run", params).data["logits"] == before
    known[1] = torch.eye(32, dtype=torch.float64)[5:8]
    assert session.ask("run", params).data["logits"] != before


def test_models_that_read_the_mean_are_not_steered() -> None:
    session = session_of(small("family"), directions=lambda model: {1: torch.eye(16, dtype=torch.float64)[:3]})
    with pytest.raises(cs.ConoscopeError, match="reads the class at several tokens"):
        session.ask("run", {"text": TEXT, "edits": {"steer": {"layer": 1, "to": 1, "angle": 60}}})


def test_maps_of_words_are_those_of_the_edited_pass_and_gradients_are_refused(bert: Session) -> None:
    by_hand = without_heads(model_of(bert))
    params = {"text": TEXT, "edits": {"ablate": HEADS}}
    for method in ("attention", "norms", "rollout_mixing", "flow"):
        found = bert.ask("words", {**params, "method": method}).arrays["scores"]
        np.testing.assert_allclose(found, cs.explain(by_hand, TEXT, method)[method], rtol=1e-4, atol=1e-6, err_msg=method)
    for method in ("gradient", "integrated_gradients"):
        with pytest.raises(cs.ConoscopeError, match="take those edits back"):
            bert.ask("words", {**params, "method": method})
    with pytest.raises(cs.ConoscopeError, match="take those edits back"):
        bert.ask("stream", params)


def test_a_deletion_curve_keeps_the_other_edits(bert: Session) -> None:
    edits = {"ablate": HEADS, "erase": [2], "replace": {"4": "very good"}}
    found = bert.ask("deletion", {"text": TEXT, "method": "attention", "edits": edits})
    assert 2 not in found.data["order"]
    by_hand = session_of(without_heads(model_of(bert)))
    words = {"erase": [2], "replace": {"4": "very good"}}
    expected = by_hand.ask("deletion", {"text": TEXT, "method": "attention", "edits": words})
    assert found.data == expected.data
    for name in ("curve", "chance"):
        np.testing.assert_allclose(found.arrays[name], expected.arrays[name], rtol=1e-4)
