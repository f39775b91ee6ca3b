"""The verb `stream`: the logit difference of two classes, split over embeddings, heads, feed-forward parts and biases."""

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor
from torch.nn.functional import normalize

from conoscope.causes.attribution_split import Split
from conoscope.causes.attribution_texts import OF_WORDS, grouped
from conoscope.causes.two_classes import Classes
from conoscope.exploring.edited import Directions
from conoscope.exploring.inputs import Input, whole
from conoscope.exploring.left import Left
from conoscope.exploring.replies import Reply, Turn
from conoscope.exploring.requests import RequestError
from conoscope.exploring.stopping import stoppable
from conoscope.exploring.warm import Warm

if TYPE_CHECKING:
    from conoscope.exploring.session import Session

EMBEDDED = ("words", "positions", "types")


def stream(session: "Session", params: Mapping[str, Any], turn: Turn) -> Reply:
    """The split of the difference between the predicted class and the next, or between two classes that are asked for."""
    given = session.read(params)
    if given.edits.of_vectors:
        raise RequestError("an answer cannot be split with heads ablated or with steering; take those edits back")
    warm = session.warm(given.model)
    if not warm.classifies:
        raise RequestError(f"{warm.loaded.name} is no classifier, and only an answer can be split; open one that is")
    asked = [
        None if params.get(name) is None else whole(params[name], f"the {name}", 0, len(warm.loaded.labels) - 1)
        for name in ("class", "other")
    ]
    if asked[0] is not None and asked[0] == asked[1]:
        raise RequestError("the class and the other are the same; give two")
    one, other = asked
    reply: Reply = session.kept(("stream", one, other), given, lambda: _stream(session, given, (one, other), turn))
    directions = session.directions(given.model)
    if directions is None:
        return reply
    towards = _towards(session.left(given, turn), directions)
    return replace(reply, arrays={**reply.arrays, "towards": towards.astype(np.float32)})


def _stream(session: "Session", given: Input, asked: tuple[int | None, int | None], turn: Turn) -> Reply:
    left, warm = session.left(given, turn), session.warm(given.model)
    splitter = warm.splitter
    with splitter, stoppable(warm.module, turn.check):
        split = splitter(left.batch, _classes(left, asked))
    arrays = _parts(split, warm)
    data = {
        "class": int(split.predicted[0]),
        "other": int(split.second[0]),
        "difference": float(split.difference[0]),
        "rest": float(split.remainder[0]),
        "labels": list(warm.loaded.labels),
    }
    return Reply(data, {name: x.astype(np.float32) for name, x in arrays.items()})


def _classes(left: Left, asked: tuple[int | None, int | None]) -> Classes:
    """The classes that are asked for; for one that is not, that with the largest logit among the others."""
    assert left.logits is not None
    ranked = left.logits[0].argsort(descending=True, stable=True).tolist()
    one = asked[0] if asked[0] is not None else next(number for number in ranked if number != asked[1])
    other = asked[1] if asked[1] is not None else next(number for number in ranked if number != one)
    first, second = (torch.tensor([number], device=left.logits.device) for number in (one, other))
    return first, second


def _parts(split: Split, warm: Warm) -> dict[str, Float[np.ndarray, "..."]]:
    """What each part adds, by layer and head; together with the remainder they are the difference."""
    layers, heads = len(warm.heads), np.full((len(warm.heads), max(warm.heads)), np.nan)
    for layer, count in enumerate(warm.heads):
        heads[layer, :count] = 0
    sums = {"embeddings": np.zeros(1), "forward": np.zeros(layers), "bias": np.zeros(1)}
    for part, x in split.parts.items():
        value = float(x[0])
        if part.part == "head":
            assert part.layer is not None
            assert part.head is not None
            heads[part.layer - 1, part.head - 1] += value
        elif part.part == "forward":
            assert part.layer is not None
            sums["forward"][part.layer - 1] += value
        else:
            sums["embeddings" if part.part in EMBEDDED else "bias"] += value
    tokens = sum(x[0].cpu().numpy() for name, x in grouped(split.tokens).items() if name in OF_WORDS)
    return {**sums, "heads": heads, "tokens": np.asarray(tokens)}


def _towards(left: Left, directions: Directions) -> Float[np.ndarray, "l c"]:
    """The cosine of the vector that stands for the text with the direction of each class, by hidden layer."""
    classes = len(next(iter(directions.values())))
    rows = []
    for trace in left.traces:
        known, hidden = directions.get(trace.layer), trace.hidden
        if known is None or hidden is None or hidden.shape[-1] != known.shape[-1]:
            rows.append(np.full(classes, np.nan))
        else:
            rows.append(_cosines(left, hidden, known))
    return np.stack(rows)


def _cosines(left: Left, hidden: Float[Tensor, "1 t d"], directions: Float[Tensor, "c d"]) -> Float[np.ndarray, " c"]:
    x = normalize(left.pooled(hidden).double(), dim=-1)
    found: np.ndarray = (directions.to(x) @ x).cpu().numpy()
    return found
