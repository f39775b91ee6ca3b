"""A page that needs no server: the explorer with the replies that its views ask for, in one file."""

import base64
import json
import shlex
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import permutations
from typing import TYPE_CHECKING, Any

import numpy as np

from conoscope.common.errors import ConoscopeError
from conoscope.common.markup import joined, tag
from conoscope.common.terminal import printable
from conoscope.exploring.bundle import built
from conoscope.exploring.frames import answer_frame, error_frame
from conoscope.exploring.replies import Reply, Turn
from conoscope.figures.embedding import as_json, document

if TYPE_CHECKING:
    from conoscope.exploring.hosts import Asking

ROOM = 24 << 20
"""Bytes of frames that a page holds at most; in the page a third more."""
TEXTS = 8
"""How many texts a page holds at most."""
ROWS = 200
"""How many rows of the corpus a page lists."""
SPLIT = 3
"""How many classes a model has at most for the streams of every two of them to be in a page."""
LULL = 0.75
"""Seconds between two looks at what goes on in the background, which goes on when nobody asks."""
GRIDS = ("entropy", "sim_key", "sim_value", "sim_context", "ablation", "gate")
Asked = tuple[str, str, Mapping[str, Any]]
"""What a group of requests is called, the verb, and its parameters."""
Found = Sequence[tuple[Asked, Reply]]
"""What was asked, with its reply."""


@dataclass
class _Replies:
    """The frames of a page by the key of their request, and what had no room."""

    frames: dict[str, str] = field(default_factory=dict)
    left_out: dict[str, int] = field(default_factory=dict)
    size: int = 0

    def add(self, what: str, key: str, frame: bytes) -> bool:
        """Keep a frame if there is room; whether it was kept."""
        if self.size + len(frame) > ROOM:
            self.left_out[what] = self.left_out.get(what, 0) + 1
            return False
        self.size += len(frame)
        self.frames[key] = base64.b64encode(frame).decode()
        return True


def exported(asking: "Asking", params: Mapping[str, Any], turn: Turn) -> Reply:
    """The reply to `export`: a page of the texts that the asking page shows, as bytes."""
    state = params.get("state")
    texts = [state.get(name) for name in ("text", "other")] if isinstance(state, dict) else []
    shown = tuple(dict.fromkeys(text for text in texts if isinstance(text, str) and text.strip()))
    page, notes = page_of(replace(asking, words=shown or asking.words), turn)
    return Reply({"file name": "explorer.html", "notes": notes}, {"page": np.frombuffer(page.encode(), np.uint8)})


def page_of(asking: "Asking", turn: Turn, patience: float = 0.0) -> tuple[str, list[str]]:
    """The page, and sentences on its size and on what is not in it.

    `patience`: how many seconds to wait for what is found in the background, such as the predictions of a corpus.
    """
    hello = _hello(asking, turn, patience)
    texts = (list(asking.words) or [_text_of(one) for one in hello.data["texts"]])[:TEXTS]
    hello = Reply({**hello.data, "texts": texts, "filling": None})
    replies = _Replies()
    replies.add("hello", key_of("hello", {}), answer_frame(0, hello))
    groups = (_of_texts(hello.data, texts), _of_results(hello.data), _slow(hello.data, texts))
    wanted = [asked for group in groups for asked in group]
    found: list[tuple[Asked, Reply]] = []
    for number, asked in enumerate(wanted):
        turn.progress(number / len(wanted), asked[0])
        reply = _ask(asking, asked, replies, turn)
        found += [] if reply is None else [(asked, reply)]
    examples = list(_examples(found))
    for asked in (*_places(hello.data, texts, found), *examples):
        turn.progress(1.0, asked[0])
        _ask(asking, asked, replies, turn)
    many = f"{len(texts)} {'text' if len(texts) == 1 else 'texts'}"
    many += f" and {len(examples):,} of the corpus" if examples else ""
    left = [
        f"{what}: {count} {'reply has' if count == 1 else 'replies have'} no room" for what, count in replies.left_out.items()
    ]
    page = _page(replies, [f"This page holds {many}; others need the live explorer.", *left], hello.data["paths"])
    return page, [f"{len(page.encode()) / 1e6:.1f} MB with {many}", *left]


def _hello(asking: "Asking", turn: Turn, patience: float) -> Reply:
    """What is open, once what goes on in the background is done, or patience is at its end."""
    end = time.monotonic() + patience
    while True:
        hello = asking("hello", {}, turn)
        filling = hello.data.get("filling")
        if filling is None or time.monotonic() > end:
            return hello
        turn.progress(0.0, f"{filling['doing']}, {filling['done']} of {filling['of']}")
        time.sleep(LULL)


def key_of(verb: str, params: Mapping[str, Any]) -> str:
    """The key of a request: its JSON, keys sorted, without what is null, false or empty."""
    return json.dumps([verb, _pruned(params) or {}], separators=(",", ":"), sort_keys=True, ensure_ascii=False)


def _pruned(value: Any) -> Any:
    """The value without null, false, "", [] and {} in objects, from the inside out; None where nothing is left."""
    if isinstance(value, Mapping):
        kept = {name: pruned for name, inner in value.items() if (pruned := _pruned(inner)) is not None}
        return kept or None
    if isinstance(value, list | tuple):
        return [inner if (pruned := _pruned(inner)) is None else pruned for inner in value] or None
    return None if value is False or value == "" else value


def _ask(asking: "Asking", asked: Asked, replies: _Replies, turn: Turn) -> Reply | None:
    """Ask, and keep the answer or the reason why there is none; the reply if it is kept."""
    what, verb, params = asked
    try:
        reply = asking(verb, params, turn)
    except ConoscopeError as error:
        replies.add(what, key_of(verb, params), error_frame(0, printable(str(error))))
        return None
    return reply if replies.add(what, key_of(verb, params), answer_frame(0, reply)) else None


def _inputs(hello: Mapping[str, Any], texts: list[str]) -> list[dict[str, Any]]:
    return [{"model": model, "text": text} for text in texts for model in range(len(hello["models"]))]


def _methods(hello: Mapping[str, Any], slow: bool) -> list[str]:
    return [method["name"] for method in hello["methods"] if bool(method["slow"]) is slow]


def _of_texts(hello: Mapping[str, Any], texts: list[str]) -> Iterator[Asked]:
    """What the views of a text ask for, but for what is slow."""
    inputs = _inputs(hello, texts)
    yield from (("runs", "run", given) for given in inputs)
    yield from (("scores of words", "words", {**given, "method": name}) for given in inputs for name in _methods(hello, False))
    for given in inputs:
        yield "streams", "stream", given
        classes = range(len(hello["models"][given["model"]]["labels"]))
        if len(classes) <= SPLIT:
            pairs = permutations(classes, 2)
            yield from (("streams", "stream", {**given, "class": one, "other": other}) for one, other in pairs)


def _of_results(hello: Mapping[str, Any]) -> Iterator[Asked]:
    """What the views of a result and of the corpus ask for."""
    results = range(len(hello["results"]))
    yield from (("grids of heads", "grid", {"result": result, "what": what}) for result in results for what in GRIDS)
    yield from (("scores of gates", "scores", {"result": result}) for result in results)
    yield from (("cones", "cones", {"result": result, "centred": on}) for result in results for on in (False, True))
    if hello["corpus"] is not None:
        yield "the list of the corpus", "corpus", {"offset": 0, "limit": ROWS}
    for number, result in enumerate(hello["results"]):
        heads = hello["models"][result["model"]]["heads"] if result.get("model") is not None else ()
        for layer, count in enumerate(heads, start=1):
            maps = ({"result": number, "layer": layer, "head": head} for head in range(1, count + 1))
            yield from (("mean maps", "mean_map", params) for params in maps)


def _slow(hello: Mapping[str, Any], texts: list[str]) -> Iterator[Asked]:
    """What takes long for each text."""
    inputs, quick, slow = _inputs(hello, texts), _methods(hello, False), _methods(hello, True)
    yield from (("scores of words", "words", {**given, "method": name}) for given in inputs for name in slow)
    yield from (("deletion curves", "deletion", {**given, "method": name}) for given in inputs for name in (*quick, *slow))


def _places(hello: Mapping[str, Any], texts: list[str], found: Found) -> Iterator[Asked]:
    """Where each text is among the cones that were found."""
    for (_, verb, asked), reply in found:
        if verb == "cones":
            model = hello["results"][asked["result"]].get("model")
            inputs = (given for given in _inputs(hello, texts) if given["model"] == model)
            places = ({**given, **asked, "site": site} for given in inputs for site in reply.data["sites"])
            yield from (("places in cones", "place", params) for params in places)


def _examples(found: Found) -> Iterator[Asked]:
    """The texts of the rows of the corpus, and those of points of cones."""
    names: dict[str, dict[str, Any]] = {}
    for (_, verb, _), reply in found:
        for one in reply.data["rows"] if verb == "corpus" else reply.data["points"] if verb == "cones" else ():
            params = {"id": one["id"]} if one["number"] is None else {"number": one["number"]}
            names.setdefault(key_of("example", params), params)
    yield from (("texts of the corpus", "example", params) for params in names.values())


def _text_of(given: Any) -> str:
    return given if isinstance(given, str) else str(given["text"])


def _page(replies: _Replies, notes: list[str], paths: Sequence[str]) -> str:
    """The page: script and style of the explorer, and its replies as JSON of which nothing can end the element."""
    command = shlex.join(["conoscope", "explore", *paths])
    data = as_json({"notes": notes, "command": command, "replies": replies.frames})
    body = joined(
        (
            tag("div", id="explorer", data_host="static"),
            tag("noscript", "This page draws with its own script; scripts are switched off."),
            tag("script", data, type="application/json", id="replies"),
        )
    )
    return document("conoscope explore", [built("explorer.css")], [built("explorer.js")], body)
