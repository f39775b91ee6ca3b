"""Requests of the explorer wait in turn, are taken back within a moment, and one page does not keep another waiting."""

import threading
import time
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from conoscope.common.errors import ConoscopeError
from conoscope.exploring.frames import answer_frame, decoded, error_frame
from conoscope.exploring.queueing import WAITING, Queue
from conoscope.exploring.replies import Reply, Turn
from conoscope.exploring.requests import Request, Withdrawal


class Slow:
    """A session whose verbs last until they are let go on or taken back, and which tells what it did."""

    def __init__(self) -> None:
        self.done: list[str] = []
        self.go = threading.Event()
        self.at_once = 0
        self.most = 0

    def __call__(self, verb: str, params: Mapping[str, Any], turn: Turn) -> Reply:
        self.at_once += 1
        self.most = max(self.most, self.at_once)
        try:
            if verb in ("slow", "words"):
                while not self.go.is_set():
                    turn.progress(0.5, "going slowly")
                    time.sleep(0.002)
            self.done.append(f"{verb} {params.get('of', '')}".strip())
            return Reply({"verb": verb})
        finally:
            self.at_once -= 1


class Read:
    """A page, and what was sent to it."""

    def __init__(self, queue: Queue) -> None:
        self.frames: list[bytes] = []
        self.page = queue.page(self.frames.append)

    @property
    def said(self) -> dict[int | None, str]:
        """What became of each request that has an answer."""
        headers = [decoded(frame)[0] for frame in self.frames]
        return {
            header["id"]: "cancelled" if header.get("cancelled") else "ok" if header["ok"] else header["error"]
            for header in headers
            if "progress" not in header
        }


@pytest.fixture
def slow() -> Slow:
    return Slow()


@pytest.fixture
def queue(slow: Slow) -> Iterator[Queue]:
    found = Queue(slow)
    yield found
    slow.go.set()
    found.close()


def until(is_so: Callable[[], bool], seconds: float = 5.0) -> float:
    """How long it took until something was so."""
    begin = time.monotonic()
    while not is_so():
        assert time.monotonic() - begin < seconds
        time.sleep(0.001)
    return time.monotonic() - begin


def test_a_newer_request_of_a_lane_takes_the_older_back_within_100_ms(slow: Slow, queue: Queue) -> None:
    page = Read(queue)
    page.page.take(Request(1, "slow", lane="run"))
    until(lambda: page.page.running is not None)
    page.page.take(Request(2, "slow", lane="run"))
    page.page.take(Request(3, "quick", lane="run"))
    assert until(lambda: 3 in page.said) < 0.1
    assert page.said == {1: "cancelled", 2: "cancelled", 3: "ok"}
    assert slow.done == ["quick"]


def test_requests_of_other_lanes_and_of_none_are_left_alone(slow: Slow, queue: Queue) -> None:
    page = Read(queue)
    for number, lane in enumerate(["a", "b", None, None]):
        page.page.take(Request(number, "slow", lane=lane))
    slow.go.set()
    until(lambda: len(page.said) == 4)
    assert set(page.said.values()) == {"ok"}
    assert slow.most == 1


def test_a_request_is_taken_back_while_it_waits_and_while_it_runs(slow: Slow, queue: Queue) -> None:
    page = Read(queue)
    for number in (1, 2, 3):
        page.page.take(Request(number, "slow"))
    until(lambda: page.page.running is not None)
    page.page.take(Withdrawal(2))
    page.page.take(Withdrawal(1))
    page.page.take(Withdrawal(7))
    until(lambda: 1 in page.said)
    slow.go.set()
    until(lambda: 3 in page.said)
    assert page.said == {2: "cancelled", 1: "cancelled", 3: "ok"}


def test_two_pages_are_answered_in_turn_and_do_not_take_each_other_back(slow: Slow, queue: Queue) -> None:
    one, other = Read(queue), Read(queue)
    one.page.take(Request(1, "slow", lane="run"))
    until(lambda: one.page.running is not None)
    for number in (2, 3, 4):
        one.page.take(Request(number, "quick", {"of": "one"}))
    other.page.take(Request(1, "quick", {"of": "other"}, lane="run"))
    other.page.take(Withdrawal(2))
    slow.go.set()
    until(lambda: len(one.said) == 4 and len(other.said) == 1)
    assert slow.done == ["slow", "quick other", "quick one", "quick one", "quick one"]
    assert {*one.said.values(), *other.said.values()} == {"ok"}


def test_a_page_that_goes_takes_all_back_and_is_sent_nothing_more(slow: Slow, queue: Queue) -> None:
    gone, stays = Read(queue), Read(queue)
    for number in (1, 2):
        gone.page.take(Request(number, "slow"))
    until(lambda: gone.page.running is not None)
    stays.page.take(Request(1, "quick"))
    gone.page.close()
    sent = len(gone.frames)
    assert until(lambda: 1 in stays.said) < 0.1
    assert len(gone.frames) == sent
    assert slow.done == ["quick"]


def test_slow_verbs_wait_for_quick_ones_of_their_page(slow: Slow, queue: Queue) -> None:
    page = Read(queue)
    page.page.take(Request(1, "slow"))
    until(lambda: page.page.running is not None)
    page.page.take(Request(2, "words"))
    page.page.take(Request(3, "head"))
    slow.go.set()
    until(lambda: len(page.said) == 3)
    assert slow.done == ["slow", "head", "words"]


def test_more_than_so_many_requests_are_refused_and_so_is_an_id_that_waits(queue: Queue) -> None:
    page = Read(queue)
    page.page.take(Request(0, "slow"))
    until(lambda: page.page.running is not None)
    page.page.take(Request(0, "slow"))
    assert "the id 0" in page.said[0]
    for number in range(1, WAITING + 2):
        page.page.take(Request(number, "quick"))
    assert "wait already" in page.said[WAITING + 1]


def test_progress_comes_before_the_answer_and_not_too_often(slow: Slow, queue: Queue) -> None:
    page = Read(queue)
    page.page.take(Request(1, "slow"))
    time.sleep(0.3)
    slow.go.set()
    until(lambda: 1 in page.said)
    headers = [decoded(frame)[0] for frame in page.frames]
    assert headers[0] == {"id": 1, "progress": 0.5, "doing": "going slowly"}
    assert 2 <= len(headers) <= 0.3 / 0.05 + 3
    assert headers[-1]["ok"]


def test_a_closed_queue_stops_what_runs_and_ends_its_thread(slow: Slow, queue: Queue) -> None:
    page = Read(queue)
    page.page.take(Request(1, "slow"))
    until(lambda: page.page.running is not None)
    begin = time.monotonic()
    queue.close()
    assert time.monotonic() - begin < 1
    assert not queue._thread.is_alive()
    page.page.take(Request(2, "quick"))
    assert slow.done == []


def test_an_error_of_the_user_is_one_line_without_control_characters() -> None:
    def refuse(verb: str, params: Mapping[str, Any], turn: Turn) -> Reply:
        raise ConoscopeError("two\nlines \x1b[31m" + "x" * 10_000)

    queue = Queue(refuse)
    page = Read(queue)
    page.page.take(Request(1, "any"))
    until(lambda: 1 in page.said)
    queue.close()
    assert page.said[1].isprintable()
    assert len(page.said[1]) < 2000


@given(
    st.dictionaries(
        st.text(max_size=8),
        arrays.arrays(
            st.sampled_from(["<f4", "<f2", "<i4", "u1", "?", "<f8", ">f4", "<i8"]), arrays.array_shapes(max_side=4, min_side=0)
        ),
        max_size=4,
    ),
    st.recursive(
        st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.floats() | st.text(max_size=8),
        lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3),
        max_leaves=8,
    ),
)
def test_a_frame_holds_what_was_put_in(given_arrays: dict[str, np.ndarray], data: Any) -> None:
    with np.errstate(over="ignore"):
        frame = answer_frame(3, Reply({"data": data}, given_arrays))
    header, read = decoded(frame)
    assert header["id"] == 3
    assert header["data"] == {"data": finite(data)}
    begins = len(frame) - sum(-(-one["bytes"] // 8) * 8 for one in header["arrays"])
    assert begins % 8 == 0
    for name, array in given_arrays.items():
        assert read[name].shape == array.shape
        with np.errstate(over="ignore"):
            np.testing.assert_array_equal(read[name], array.astype(read[name].dtype))
    assert all(one["offset"] % 8 == 0 for one in header["arrays"])


def finite(data: Any) -> Any:
    """The data with null for what is not finite."""
    if isinstance(data, dict):
        return {name: finite(inner) for name, inner in data.items()}
    if isinstance(data, list):
        return [finite(inner) for inner in data]
    return None if isinstance(data, float) and not np.isfinite(data) else data


def test_numbers_of_numpy_and_half_an_emoji_are_written() -> None:
    data = {"a": np.float32(0.5), "b": np.int64(7), "c": np.array([1.0, np.nan]), "d": (np.bool_(True),), "e": "\ud83d"}
    header, _ = decoded(answer_frame(1, Reply(data)))
    assert header["data"] == {"a": 0.5, "b": 7, "c": [1.0, None], "d": [True], "e": "\ud83d"}
    assert decoded(error_frame(None, "why"))[0] == {"id": None, "ok": False, "error": "why"}
