"""The verbs `run`, `head` and `answer`: what a text leaves in a model, and what the model answers."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from conoscope.exploring.edited import shown_words
from conoscope.exploring.heads import by_layer, entropy_of, gates, norms_of, residual_of, sim_of, thumbs, weights_of
from conoscope.exploring.inputs import name_in, whole
from conoscope.exploring.left import Left
from conoscope.exploring.replies import Reply, Turn
from conoscope.exploring.requests import RequestError
from conoscope.exploring.warm import MAPS

if TYPE_CHECKING:
    from conoscope.exploring.session import Session

MOST = 4 << 20
"""The largest map of all heads, in bytes, that `run` sends; larger ones are asked for head by head."""
SIMS = ("key", "value", "context")


def run(session: "Session", params: Mapping[str, Any], turn: Turn) -> Reply:
    """Everything about one text: tokens, the answer, maps, entropies, cones and gates of all heads."""
    given = session.read(params)
    return session.kept(("run",), given, lambda: _run(session.left(given, turn), turn))


def _run(left: Left, turn: Turn) -> Reply:
    arrays: dict[str, np.ndarray] = {}
    heads, tokens = max(left.warm.heads), len(left.words)
    if 4 * len(left.layers) * heads * tokens**2 <= MOST:
        makers = {"weights": weights_of, "norms": norms_of}
        for name in (name for name in makers if name in left.warm.maps):
            turn.check()
            arrays[name] = by_layer(left, makers[name])
        if "residual" in left.warm.maps:
            turn.check()
            arrays["residual"] = by_layer(left, residual_of)
    turn.check()
    arrays |= {"thumbs": thumbs(left), "entropy": by_layer(left, entropy_of)}
    arrays |= {f"sim_{site}": by_layer(left, sim_of(site)) for site in SIMS}
    turn.check()
    said = zip(left.tokens, left.kinds, left.words, strict=True)
    data = {
        "tokens": [{"text": text, "kind": kind, "word": word} for text, kind, word in said],
        "words": shown_words(left.given),
        "labels": list(left.warm.loaded.labels),
        **answered(left),
        "place": left.place,
        "truncated": left.truncated,
        "gates": gates(left),
        "ms": 1000 * left.seconds,
    }
    return Reply(data, arrays)


def head(session: "Session", params: Mapping[str, Any], turn: Turn) -> Reply:
    """One map of one head, or of a layer with residual and normalisation."""
    given = session.read(params)
    warm = session.warm(given.model)
    layer = whole(params.get("layer"), "the layer", 1, len(warm.heads))
    number = whole(params.get("head", 1), "the head", 1, warm.heads[layer - 1])
    name = name_in(params.get("map", MAPS[0]), "map", MAPS)
    if name not in warm.maps:
        raise RequestError(f"{warm.loaded.name} has no map of {name}: it cannot be followed in every layer; choose another")
    left = session.left(given, turn)
    found = (
        residual_of(left, layer)
        if name == "residual"
        else {"weights": weights_of, "norms": norms_of}[name](left, layer)[number - 1]
    )
    return Reply({}, {"map": found.cpu().numpy()})


def answer(session: "Session", params: Mapping[str, Any], turn: Turn) -> Reply:
    """The answer alone; empty for a model without a classifier."""
    return Reply(answered(session.left(session.read(params), turn)))


def answered(left: Left) -> dict[str, Any]:
    """The predicted class, probabilities and logits; empty for a model without a classifier."""
    logits = [] if left.logits is None else left.logits[0].tolist()
    return {"predicted": left.predicted, "probabilities": left.probabilities, "logits": logits}
