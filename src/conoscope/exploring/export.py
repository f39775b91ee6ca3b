"""A page that needs no server: the explorer with the replies that its views ask for, in one file."""

import base64
import json
import shlex
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
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
GRIDS = ("entropy", "sim_key", "sim_value", "sim_context", "ablation", "gate")
Asked = tuple[str, str, Mapping[str, Any]]
"""What a group of requests is called, the verb, and its parameters."""


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


def page_of(asking: "Asking", turn: Turn) -> tuple[str, list[str]]:
    """The page, and sentences on its size and on what is not in it."""
    hello = asking("hello", {}, turn)
    texts = (list(asking.words) or [_text_of(one) for one in hello.data["texts"]])[:TEXTS]
    hello = Reply({**hello.data, "texts": texts})
    replies = _Replies()
    replies.add("hello", key_of("hello", {}), answer_frame(0, hello))
    wanted = list(_wanted(hello.data, texts))
    for number, (what, verb, params) in enumerate(wanted):
        turn.progress(number / len(wanted), what)
        _ask(asking, (what, verb, params), replies, turn)
    _ask_examples(asking, replies, turn)
    command = shlex.join(["conoscope", "explore", *hello.data["paths"]])
    left = [
        f"{what}: {count} {'reply has' if count == 1 else 'replies have'} no room" for what, count in replies.left_out.items()
    ]
    notes = [f"This page holds {len(texts)} {'text' if len(texts) == 1 else 'texts'}; others need the live explorer.", *left]
    page = _page(replies, notes, command)
    return page, [f"{len(page.encode()) / 1e6:.1f} MB with {len(texts)} {'text' if len(texts) == 1 else 'texts'}", *left]


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


def _ask_examples(asking: "Asking", replies: _Replies, turn: Turn) -> None:
    """Keep the list of the corpus, and each text of it."""
    rows = _ask(asking, ("the corpus", "corpus", {"offset": 0, "limit": ROWS}), replies, turn)
    for row in rows.data.get("rows", ()) if rows is not None else ():
        turn.check()
        _ask(asking, ("texts of the corpus", "example", {"number": row["number"]}), replies, turn)


def _wanted(hello: Mapping[str, Any], texts: list[str]) -> Iterator[Asked]:
    """What the views of a page ask for, the most needed first."""
    inputs = [{"model": model, "text": text} for text in texts for model in range(len(hello["models"]))]
    results = range(len(hello["results"]))
    quick = [method["name"] for method in hello["methods"] if not method["slow"]]
    slow = [method["name"] for method in hello["methods"] if method["slow"]]
    yield from (("runs", "run", given) for given in inputs)
    yield from (("scores of words", "words", {**given, "method": method}) for given in inputs for method in quick)
    yield from (("streams", "stream", given) for given in inputs)
    yield from (("grids of heads", "grid", {"result": result, "what": what}) for result in results for what in GRIDS)
    yield from (("scores of gates", "scores", {"result": result}) for result in results)
    yield from (("cones", "cones", {"result": result, "centred": on}) for result in results for on in (False, True))
    yield from (("places in cones", "place", params) for params in _places(hello, inputs))
    yield from (("mean maps", "mean_map", params) for params in _mean_maps(hello))
    yield from (("scores of words", "words", {**given, "method": method}) for given in inputs for method in slow)
    yield from (("deletion curves", "deletion", {**given, "method": name}) for given in inputs for name in (*quick, *slow))


def _places(hello: Mapping[str, Any], inputs: list[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    for number, result in enumerate(hello["results"]):
        for given in inputs:
            if result.get("model") == given["model"]:
                for site in result.get("sites", ()):
                    yield from ({**given, "result": number, "site": site, "centred": on} for on in (False, True))


def _mean_maps(hello: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    for number, result in enumerate(hello["results"]):
        if result.get("model") is not None:
            for layer, heads in enumerate(hello["models"][result["model"]]["heads"], start=1):
                yield from ({"result": number, "layer": layer, "head": head} for head in range(1, heads + 1))


def _text_of(given: Any) -> str:
    return given if isinstance(given, str) else str(given["text"])


def _page(replies: _Replies, notes: list[str], command: str) -> str:
    """The page: script and style of the explorer, and its replies as JSON of which nothing can end the element."""
    data = as_json({"notes": notes, "command": command, "replies": replies.frames})
    body = joined(
        (
            tag("div", id="explorer", data_host="static"),
            tag("noscript", "This page draws with its own script; scripts are switched off."),
            tag("script", data, type="application/json", id="replies"),
        )
    )
    return document("conoscope explore", [built("explorer.css")], [built("explorer.js")], body)
