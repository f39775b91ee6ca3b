"""The verb `words`: the score of each word by one method."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
from jaxtyping import Float
from torch import Tensor

from conoscope.explaining.base import METHODS, ForwardPass, Request, request
from conoscope.explaining.matrices import KINDS
from conoscope.explaining.passes import readers_of
from conoscope.explaining.words import word_scores
from conoscope.exploring.edited import shown_words
from conoscope.exploring.inputs import Input
from conoscope.exploring.left import Left
from conoscope.exploring.replies import Reply, Turn
from conoscope.exploring.requests import RequestError
from conoscope.exploring.stopping import stoppable

if TYPE_CHECKING:
    from conoscope.exploring.session import Session

SLOW = ("flow", "integrated_gradients")
"""Methods that take seconds for a long text."""
OF_TEXT = ("random",)
"""Methods that read no vectors."""


def methods() -> list[dict[str, Any]]:
    """What `hello` says of the methods."""
    return [{"name": name, "slow": name in SLOW, "about": method.summary} for name, method in METHODS.items()]


def words(session: "Session", params: Mapping[str, Any], turn: Turn) -> Reply:
    """The scores of the words of a text by one method."""
    given, method = session.read(params), method_of(params)
    scores = scored(session, given, method, turn)
    return Reply({"words": shown_words(given), "about": method.method.summary}, {"scores": scores.astype(np.float32)})


def method_of(params: Mapping[str, Any]) -> Request:
    """The method that the parameters name, with its options."""
    name = params.get("method")
    if not isinstance(name, str):
        raise RequestError("no method is named; give one, such as attention")
    return request(name)


def scored(session: "Session", given: Input, method: Request, turn: Turn) -> Float[np.ndarray, " w"]:
    """The score of each word by its number before edits; NaN for words that were erased or not read."""
    if given.edits.of_vectors and not method.method.needs and method.method.name not in OF_TEXT:
        raise RequestError(f"{method.name} runs the model anew and knows no ablated heads nor steering; take those edits back")
    found: np.ndarray = session.kept(("words", method.name), given, lambda: _scored(session.left(given, turn), method, turn))
    return found


def _scored(left: Left, method: Request, turn: Turn) -> Float[np.ndarray, " w"]:
    forward = _forward(left, method, turn)
    with stoppable(left.warm.module, turn.check, back=True):
        by_token = method.scores(forward)
    count = int(left.batch.word.max()) + 1
    (scores,) = word_scores(by_token, left.batch, [count], "sum")
    by_number = np.full(len(left.given.words), np.nan)
    # A word that was replaced by several has the sum of theirs.
    for word, number in sorted(set(zip(left.batch.word[0].tolist(), left.words, strict=True))):
        if word >= 0:
            by_number[number] = np.nansum([by_number[number], scores[word]])
    return by_number


def _forward(left: Left, method: Request, turn: Turn) -> ForwardPass:
    matrices: dict[str, list[Tensor]] = {}
    for kind in method.method.needs:
        matrices[kind] = []
        for trace in left.layers:
            turn.check()
            if trace.weights is not None:
                matrices[kind].append(KINDS[kind](left.mixing(trace.layer) if kind != "weights" else trace))
    readers = _readers(left) if matrices else None
    return ForwardPass(left.warm.module, left.batch, left.logits, readers, matrices, turn.check)


def _readers(left: Left) -> Float[Tensor, "1 t"]:
    wiring = left.warm.capture.find_wiring()
    return readers_of(left.batch, wiring.pooling, wiring.asked)
