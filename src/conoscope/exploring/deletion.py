"""The verb `deletion`: how the probability of the predicted class falls when words are erased in the order of their scores."""

from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
from jaxtyping import Float, Int
from torch import Tensor

from conoscope.capture.batch import Batch
from conoscope.corpora import Example
from conoscope.corpora.base import stable_hash
from conoscope.explaining.erasing import ordered
from conoscope.exploring.edited import Directions, edited_text, vector_edits
from conoscope.exploring.inputs import Edits, Input
from conoscope.exploring.left import probabilities_of
from conoscope.exploring.replies import Reply, Turn
from conoscope.exploring.requests import RequestError
from conoscope.exploring.stopping import stoppable
from conoscope.exploring.warm import TOKENS, Warm
from conoscope.exploring.word_scores import method_of, scored

if TYPE_CHECKING:
    from conoscope.exploring.session import Session

STEPS = (10, 50)
"""How many words are erased: for the longest texts, and for short ones."""
BUDGET = 1 << 15
"""How many tokens run in all, about."""
ORDERS = 4
"""How many random orders the chance curve is the mean of."""
TOGETHER = 1024
"""How many tokens run at once."""


def deletion(session: "Session", params: Mapping[str, Any], turn: Turn) -> Reply:
    """The curve of a method, and that of random orders."""
    given, method = session.read(params), method_of(params)
    warm = session.warm(given.model)
    if not warm.classifies:
        raise RequestError(f"{warm.loaded.name} is no classifier, and a deletion curve is of a class; open one that is")
    return session.kept(("deletion", method.name), given, lambda: _deletion(session, given, params, turn))


def _deletion(session: "Session", given: Input, params: Mapping[str, Any], turn: Turn) -> Reply:
    scores = scored(session, given, method_of(params), turn)
    left = session.left(given, turn)
    read = np.array(sorted(set(left.words) - {-1}), dtype=int)
    order = read[ordered(scores[read])][: _steps(len(left.words))]
    draw = np.random.default_rng(stable_hash(given.text))
    orders = [order, *(draw.permutation(read)[: len(order)] for _ in range(ORDERS))]
    inputs = [_without(given, some[:count]) for some in orders for count in range(len(order) + 1)]
    found = _probabilities(session.warm(given.model), inputs, session.steering(given), turn)
    assert left.predicted is not None
    curves = found[:, left.predicted].reshape(len(orders), -1)
    data = {"class": left.predicted, "order": order.tolist()}
    return Reply(data, {"curve": curves[0].astype(np.float32), "chance": curves[1:].mean(0).astype(np.float32)})


def _steps(tokens: int) -> int:
    """How many words of a text of so many tokens are erased."""
    return min(STEPS[1], max(STEPS[0], BUDGET // (tokens * (ORDERS + 1))))


def _without(given: Input, more: Int[np.ndarray, " n"]) -> Input:
    """The input with more words erased; a replaced word that is erased is no longer replaced."""
    gone = {*given.edits.erase, *more.tolist()}
    kept = tuple(pair for pair in given.edits.replace if pair[0] not in gone)
    edits: Edits = replace(given.edits, erase=tuple(sorted(gone)), replace=kept)
    return replace(given, edits=edits if len(more) else given.edits)


def _probabilities(warm: Warm, inputs: Sequence[Input], directions: Directions | None, turn: Turn) -> Float[np.ndarray, "n c"]:
    """The probabilities of each input, which all have the same edits of vectors; NaN for texts of which nothing is left."""
    texts = [edited_text(given)[0] for given in inputs]
    distinct = {(each.text, each.pair): each for each in texts if _is_readable(warm, each)}
    found = dict(zip(distinct, _answers(warm, list(distinct.values()), inputs[0], directions, turn), strict=True))
    unknown = np.full(len(warm.loaded.labels), np.nan)
    return np.stack([found.get((each.text, each.pair), unknown) for each in texts])


def _answers(
    warm: Warm, texts: Sequence[Example], given: Input, directions: Directions | None, turn: Turn
) -> Float[np.ndarray, "n c"]:
    rows = np.zeros((len(texts), len(warm.loaded.labels)))
    longest = min(TOKENS, warm.loaded.max_length, 2 + max(warm.loaded.length(each.text, each.pair) for each in texts[:1]))
    done = 0

    def run(batch: Batch) -> Tensor:
        return warm.editor.run(batch, vector_edits(warm.editor, batch, given, directions))

    with ExitStack() as stack:
        if given.edits.of_vectors:
            stack.enter_context(warm.editor)
        stack.enter_context(stoppable(warm.module, turn.check))
        for batch in warm.batcher.batches(texts, max(1, TOGETHER // longest)):
            turn.progress(done / len(texts), "erasing words")
            answer = warm.loaded.answer(batch, run, watch=True) if given.edits.of_vectors else warm.loaded.answer(batch)
            rows[batch.place.numpy() - 1] = probabilities_of(warm, answer)
            done += len(batch.ids)
    return rows


def _is_readable(warm: Warm, text: Example) -> bool:
    """Whether any token is left: some tokenizers turn an empty text into no token at all."""
    return bool(text.words) or warm.loaded.tokenizer.num_special_tokens_to_add(pair=text.pair is not None) > 0
