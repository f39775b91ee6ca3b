"""Session: open models, results and a corpus, what texts left in the models, and the answers to requests."""

from collections.abc import Callable, Hashable, Mapping
from typing import Any, TypeVar

from conoscope.common.errors import one_of
from conoscope.common.keywords import nearest
from conoscope.exploring.edited import Directions
from conoscope.exploring.inputs import Input, read_input
from conoscope.exploring.keeping import Cache, Sized
from conoscope.exploring.left import Left, passed
from conoscope.exploring.opening import Opened
from conoscope.exploring.replies import Reply, Turn
from conoscope.exploring.requests import RequestError
from conoscope.exploring.shelf import Shelf
from conoscope.exploring.warm import Warm
from conoscope.exploring.yielding import Turns

ROOM = 512 << 20
"""How many bytes of what texts left are kept."""
T = TypeVar("T", bound=Sized)
DirectionsOf = Callable[[int], Directions | None]
"""The directions of the classes in the hidden layers of a model, by its number; None where no result knows them."""


class Session:
    """What the explorer's page asks: `session.ask(verb, params)` is the reply, or a ConoscopeError of one line.

    >>> Session(open_paths(["runs/pure"])).ask("answer", {"text": "the soup was not good"}).data["probabilities"]
    """

    def __init__(self, opened: Opened, room: int = ROOM, directions: DirectionsOf | None = None) -> None:
        self.opened = opened
        self.models = [Warm(loaded) for loaded in opened.models]
        self.cache = Cache(room)
        self.turns = Turns()
        self.shelf = Shelf(opened, self.turns)
        self.directions: DirectionsOf = directions or self.shelf.directions_of_model

    def ask(self, verb: str, params: Mapping[str, Any], turn: Turn | None = None) -> Reply:
        """The reply to a request. One request runs at a time; others wait, and work in the background stops for it."""
        from conoscope.exploring.verbs import VERBS

        if verb not in VERBS:
            raise RequestError(f"no verb {verb!r}{nearest(verb, VERBS)}; known: {one_of(VERBS)}")
        turn = turn or Turn()
        with self.turns.request():
            turn.check()
            return VERBS[verb](self, params, turn)

    def close(self) -> None:
        """End the work in the background."""
        self.shelf.close()

    def read(self, params: Mapping[str, Any]) -> Input:
        """The input in the parameters of a request; its heads and layers are those of its model."""
        given = read_input(params, len(self.models))
        if given.edits.of_vectors:
            self._refuse_unknown(given)
        return given

    def warm(self, model: int) -> Warm:
        """An open model, by its number."""
        return self.models[model]

    def left(self, given: Input, turn: Turn) -> Left:
        """What a text left in its model, from the cache or from a pass."""
        warm = self.warm(given.model)
        return self.kept(("left",), given, lambda: passed(warm, given, self.steering(given), turn.check))

    def kept(self, what: tuple[Hashable, ...], given: Input, compute: Callable[[], T]) -> T:
        """Something of an input from the cache, computed if it is not there."""
        return self.cache.get((what, given, self._towards(given)), compute)

    def steering(self, given: Input) -> Directions | None:
        """The directions of classes, if an input is steered towards one."""
        return None if given.edits.steer is None else self.directions(given.model)

    def _towards(self, given: Input) -> Hashable:
        """The direction that an input is steered towards: those of texts that are still being measured change."""
        steer, directions = given.edits.steer, self.steering(given)
        if steer is None or directions is None or steer.layer not in directions or steer.to >= len(directions[steer.layer]):
            return None
        return tuple(directions[steer.layer][steer.to].tolist())

    def _refuse_unknown(self, given: Input) -> None:
        heads = self.warm(given.model).heads
        for layer, head in given.edits.ablate:
            if layer > len(heads) or head > heads[layer - 1]:
                raise RequestError(
                    f"no head {layer}.{head} to ablate; name one from 1.1 to {len(heads)}.{heads[-1]}, layer and head"
                )
        if given.edits.steer is not None and given.edits.steer.layer > len(heads):
            raise RequestError(f"no layer {given.edits.steer.layer} to steer in; give one from 0 to {len(heads)}")
