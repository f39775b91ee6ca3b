"""What anybody may ask of a session: nonsense gets one line, what is taken back ends, what is kept is bounded."""

import math
from dataclasses import dataclass, field
from threading import Event
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import conoscope as cs
from conoscope.common.errors import MESSAGE
from conoscope.exploring.keeping import LEAST, Cache
from conoscope.exploring.replies import Cancelled, Turn
from conoscope.exploring.session import Session
from conoscope.exploring.verbs import VERBS
from exploring_models import TEXT, session_of, small

OF_TEXTS = ("run", "head", "answer", "words", "deletion", "stream")
REST = {"head": {"layer": 1, "head": 1, "map": "weights"}, "words": {"method": "attention"}, "deletion": {"method": "attention"}}


@pytest.fixture(scope="module")
def bert() -> Session:
    return session_of(small("bert"))


@pytest.fixture(scope="module")
def steered() -> Session:
    known = {1: torch.eye(32, dtype=torch.float64)[:3], 2: torch.full((3, 32), torch.nan, dtype=torch.float64)}
    return session_of(small("bert"), directions=lambda model: known)


def refusal(session: Session, verb: str, params: dict[str, Any]) -> str:
    """The line by which a request is refused."""
    with pytest.raises(cs.ConoscopeError) as refused:
        session.ask(verb, params)
    line = str(refused.value)
    assert len(line.splitlines()) == 1
    assert len(line) <= MESSAGE
    return line


WRONG_TEXTS = (
    ({}, "the text is no string"),
    ({"text": None}, "the text is no string"),
    ({"text": 3}, "the text is no string"),
    ({"text": ["a"]}, "the text is no string"),
    ({"text": ""}, "the text is empty"),
    ({"text": " \n\t"}, "the text is empty"),
    ({"text": "a" * 100_000}, "100,000 characters; at most"),
    ({"text": "a " * 50_000}, "100,000 characters; at most"),
    ({"text": "a", "pair": "b" * 20_000}, "20,001 characters; at most"),
    ({"text": "a", "pair": 7}, "the pair is no string"),
    *(({"text": "a", "model": model}, "model is") for model in (-1, 1, 10**30, 0.0, math.nan, True, "0", [0], {}, None)),
)


@pytest.mark.parametrize("verb", OF_TEXTS)
@pytest.mark.parametrize(("params", "said"), WRONG_TEXTS)
def test_what_is_no_text_or_model_is_refused_in_one_line(bert: Session, verb: str, params: dict[str, Any], said: str) -> None:
    assert said in refusal(bert, verb, {**REST.get(verb, {}), **params})


WRONG_EDITS = (
    (3, "edits is 3"),
    ([1], "edits is of type list"),
    ("x" * 9000, "edits is 'xxx"),
    ({"erased": [1]}, "no edit 'erased' (did you mean 'erase'?)"),
    ({"erase": 1}, "erase is 1"),
    ({"erase": {"1": 1}}, "erase is of type dict"),
    *(({"erase": [word]}, "a word to erase is") for word in (-1, 11, 10**40, 1.0, math.nan, math.inf, "1", None, True, [1])),
    ({"erase": [0] * 100_000}, "100,000 things"),
    ({"replace": [1]}, "replace is of type list"),
    *(({"replace": {word: "a"}}, "a word to replace is") for word in ("-1", "11", "1.5", "x", "", "9" * 5000, "１", "²")),
    ({"replace": {"1": 3}}, "a word is replaced by 3"),
    ({"replace": {"1": None}}, "a word is replaced by None"),
    ({"replace": {"1": "a" * 20_001}}, "20,000 characters"),
    ({"erase": [1], "replace": {"1": "a"}}, "both erased and replaced"),
    ({"ablate": "1.1"}, "ablate is '1.1'"),
    *(({"ablate": [head]}, "a head to ablate is") for head in ([1], [1, 2, 3], 3, "12", None, {})),
    *(
        ({"ablate": [head]}, "a layer or head to ablate is")
        for head in ([0, 1], [1, 0], [1, -1], [1.0, 1], [1, math.nan], [1, 10**9])
    ),
    ({"ablate": [[4, 1]]}, "no head 4.1 to ablate; name one from 1.1 to 3.4"),
    ({"ablate": [[1, 5]]}, "no head 1.5 to ablate"),
    ({"ablate": [[1, 1]], "how": "max"}, "no way to ablate 'max'"),
    ({"ablate": [[1, 1]], "how": 3}, "no way to ablate 3"),
    ({"steer": 3}, "steer is 3"),
    *(
        ({"steer": {"layer": 1, "to": 1, "angle": angle}}, "the angle to steer by is")
        for angle in (None, "3", 181, -1e300, math.nan, 10**400, True)
    ),
    *(
        ({"steer": {"layer": layer, "to": 1, "angle": 9}}, "the layer to steer in is")
        for layer in (None, -1, 1.0, math.nan, "1", 10**9)
    ),
    ({"steer": {"layer": 4, "to": 1, "angle": 9}}, "no layer 4 to steer in; give one from 0 to 3"),
    *(({"steer": {"layer": 1, "to": to, "angle": 9}}, "the class to steer to is") for to in (None, -1, 1.0, "x", 10**9)),
)


@pytest.mark.parametrize("verb", OF_TEXTS)
@pytest.mark.parametrize(("edits", "said"), WRONG_EDITS)
def test_edits_that_are_none_are_refused_in_one_line(bert: Session, verb: str, edits: Any, said: str) -> None:
    assert said in refusal(bert, verb, {**REST.get(verb, {}), "text": TEXT, "edits": edits})


def test_steering_needs_a_direction_of_the_class_in_the_layer(bert: Session, steered: Session) -> None:
    edits = {"steer": {"layer": 1, "to": 1, "angle": 9}}
    assert "no open result has directions" in refusal(bert, "run", {"text": TEXT, "edits": edits})
    for layer, to, said in (
        (3, 1, "no directions of classes are known in layer 3"),
        (1, 3, "class 3"),
        (2, 1, "class 1 in layer 2"),
    ):
        assert said in refusal(steered, "run", {"text": TEXT, "edits": {"steer": {"layer": layer, "to": to, "angle": 9}}})


def test_directions_of_another_models_width_are_not_used(bert: Session) -> None:
    session = session_of(bert.opened.models[0], directions=lambda model: {1: torch.eye(8, dtype=torch.float64)[:3]})
    line = refusal(session, "run", {"text": TEXT, "edits": {"steer": {"layer": 1, "to": 1, "angle": 9}}})
    assert "directions are 8 numbers long, and hidden states 32" in line
    assert np.isnan(session.ask("stream", {"text": TEXT}).arrays["towards"]).all()


@pytest.mark.parametrize(
    ("verb", "more", "said"),
    [
        *(("head", {"layer": layer}, "the layer is") for layer in (None, 0, 4, -1, 1.0, "1", math.nan, 10**30)),
        *(("head", {"head": head}, "the head is") for head in (None, 0, 5, -1, 1.0, "1", math.nan)),
        *(("head", {"map": name}, "no map") for name in ("weight", "", 3, None, ["weights"], "x" * 10_000)),
        *((verb, {"method": None}, "no method is named") for verb in ("words", "deletion")),
        *((verb, {"method": ["attention"]}, "no method is named") for verb in ("words", "deletion")),
        *((verb, {"method": "atention"}, "did you mean 'attention'?") for verb in ("words", "deletion")),
        *((verb, {"method": "attention:layer=9"}, "no layer 9") for verb in ("words", "deletion")),
        *((verb, {"method": "attention:layer=x"}, "layer") for verb in ("words", "deletion")),
        *((verb, {"method": "integrated_gradients:steps=9999999"}, "at most 1000000 steps") for verb in ("words", "deletion")),
        *((verb, {"method": "<script>" * 2000}, "no map") for verb in ("words", "deletion")),
        *(("stream", {"class": one}, "the class is") for one in (-1, 3, 1.0, "1", math.nan)),
        ("stream", {"class": 1, "other": 1}, "are the same"),
    ],
)
def test_parameters_that_do_not_fit_are_refused_in_one_line(bert: Session, verb: str, more: dict[str, Any], said: str) -> None:
    assert said in refusal(bert, verb, {"text": TEXT, **REST.get(verb, {}), **more})


def test_unknown_verbs_are_refused_and_known_ones_named(bert: Session) -> None:
    line = refusal(bert, "runs", {})
    assert "no verb 'runs' (did you mean 'run'?)" in line
    assert all(verb in line for verb in VERBS)


def test_a_session_without_a_model_says_so() -> None:
    assert "no model is open" in refusal(session_of(), "run", {"text": TEXT})


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20) | st.just(TEXT),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(["erase", "1", "layer", "to"]) | st.text(max_size=5), inner, max_size=3)
    ),
    max_leaves=8,
)
NAMES = st.sampled_from(["text", "pair", "model", "edits", "layer", "head", "map", "method", "class", "other"])


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.sampled_from(OF_TEXTS), st.dictionaries(NAMES, JSON, max_size=6))
def test_any_parameters_are_answered_or_refused_in_one_line(verb: str, params: dict[str, Any]) -> None:
    session = KEPT.setdefault("bert", session_of(small("bert")))
    line = ""
    try:
        session.ask(verb, params)
    except cs.ConoscopeError as error:
        line = str(error)
    assert len(line.splitlines()) <= 1


KEPT: dict[str, Session] = {}


@dataclass
class After:
    """An event that is set when it was asked so many times."""

    times: int
    asked: int = field(default=0)

    def is_set(self) -> bool:
        """Whether it was asked so many times."""
        self.asked += 1
        return self.asked > self.times


def turn_of(after: After) -> Turn:
    return Turn(after)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("verb", "more", "steps"),
    [
        ("run", {}, 30),
        ("run", {"edits": {"ablate": [[1, 1]]}}, 30),
        ("words", {"method": "gradient"}, 60),
        ("words", {"method": "integrated_gradients"}, 60),
        ("words", {"method": "flow"}, 40),
        ("deletion", {"method": "attention"}, 60),
        ("deletion", {"method": "attention", "edits": {"ablate": [[1, 1]]}}, 60),
        ("stream", {}, 60),
    ],
)
def test_what_is_taken_back_ends_at_its_next_step_and_leaves_the_session_as_it_was(
    verb: str, more: dict[str, Any], steps: int
) -> None:
    session = session_of(small("bert"))
    params = {"text": TEXT, **more}
    session.ask("hello", {})
    expected, never = session.ask(verb, params, turn_of(every := After(10**9))), every.asked
    assert never > steps
    for times in (0, 1, 7, never // 2, never - 1):
        session.cache.clear()
        after = After(times)
        with pytest.raises(Cancelled):
            session.ask(verb, params, turn_of(after))
        assert after.asked == times + 1
        again = session.ask(verb, params)
        assert again.data.keys() == expected.data.keys()
        for name, array in expected.arrays.items():
            np.testing.assert_array_equal(again.arrays[name], array)


def test_what_was_taken_back_before_it_began_does_not_run(bert: Session) -> None:
    turn = Turn(Event())
    turn.stop.set()
    with pytest.raises(Cancelled):
        bert.ask("run", {"text": "w7 w8 w9"}, turn)
    assert (("left",), bert.read({"text": "w7 w8 w9"}), None) not in bert.cache


def test_progress_is_told_and_grows(bert: Session) -> None:
    told: list[float] = []
    bert.cache.clear()
    bert.ask("deletion", {"text": TEXT, "method": "norms"}, Turn(tell=lambda share, doing: told.append(share)))
    assert told == sorted(told)
    assert told[0] == 0
    assert told[-1] < 1


@dataclass(frozen=True)
class Value:
    nbytes: int


@settings(max_examples=100, deadline=None)
@given(st.lists(st.tuples(st.integers(0, 9), st.integers(0, 5 * LEAST)), max_size=40), st.integers(0, 12 * LEAST))
def test_a_cache_never_holds_more_than_its_room_and_always_has_what_was_last_put_if_that_fits(
    asked: list[tuple[int, int]], room: int
) -> None:
    cache, sizes = Cache(room), dict(asked)
    for key, _ in asked:
        assert cache.get(key, lambda key=key: Value(sizes[key])) == Value(sizes[key])
        assert cache.nbytes <= room
        assert cache.nbytes == sum(LEAST + sizes[known] for known in sizes if known in cache)
        assert (key in cache) == (LEAST + sizes[key] <= room)


def test_a_cache_forgets_first_what_was_not_asked_for_longest() -> None:
    cache = Cache(3 * LEAST)
    for key in ("a", "b", "c", "a", "d"):
        cache.get(key, lambda: Value(0))
    assert [key in cache for key in "abcd"] == [True, False, True, True]


def test_what_texts_left_stays_within_the_room_and_is_the_same_without_any() -> None:
    loaded = small("bert")
    roomy, tight, none = session_of(loaded), session_of(loaded, room=300_000), session_of(loaded, room=0)
    for number in range(20):
        params = {"text": f"{TEXT} w{number}"}
        replies = [session.ask("run", params) for session in (roomy, tight, none)]
        for reply in replies[1:]:
            assert {**reply.data, "ms": 0} == {**replies[0].data, "ms": 0}
            for name, array in replies[0].arrays.items():
                np.testing.assert_array_equal(reply.arrays[name], array)
        assert tight.cache.nbytes <= 300_000
    assert len(none.cache) == 0
    assert 0 < len(tight.cache) < len(roomy.cache) == 40


def test_the_size_of_what_is_kept_counts_every_tensor_once(bert: Session) -> None:
    left = bert.left(bert.read({"text": TEXT}), Turn())
    storages: dict[int, int] = {}
    for trace in left.traces:
        for name in ("hidden", "input", "key", "value", "weights", "context", "output", "before"):
            x = getattr(trace, name)
            if x is not None:
                storages[x.untyped_storage().data_ptr()] = x.untyped_storage().nbytes()
    assert left.nbytes >= sum(storages.values())
    tokens = len(left.words)
    assert left.nbytes <= sum(storages.values()) + 3 * 4 * tokens**2 + 10_000
