"""Input: a text with edits, read from the parameters of a request, which anybody may have written."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from conoscope.common.errors import one_of
from conoscope.common.keywords import nearest
from conoscope.exploring.requests import CHARACTERS, RequestError

HOWS = ("zero", "mean")
"""What becomes of an ablated head's vectors: zero, or their mean over the real tokens of the text."""
KEYS = ("erase", "replace", "ablate", "how", "steer")


@dataclass(frozen=True)
class Steer:
    """The hidden state that is classified from is turned in a layer, by an angle in degrees, towards the direction of a class."""

    layer: int
    to: int
    angle: float


@dataclass(frozen=True)
class Edits:
    """Words that are erased or replaced, by their numbers from 0; heads (layer, head) that are ablated; and steering."""

    erase: tuple[int, ...] = ()
    replace: tuple[tuple[int, str], ...] = ()
    ablate: tuple[tuple[int, int], ...] = ()
    how: str = "zero"
    steer: Steer | None = None

    @property
    def of_vectors(self) -> bool:
        """Whether vectors are edited while the model runs, not words alone."""
        return bool(self.ablate) or self.steer is not None


@dataclass(frozen=True)
class Input:
    """What a model is run with: its number among the open ones, a text or a pair, and edits."""

    model: int
    text: str
    pair: str | None = None
    edits: Edits = field(default_factory=Edits)

    @property
    def words(self) -> tuple[str, ...]:
        """The whitespace words of the text, then of the pair, as they were before edits."""
        return (*self.text.split(), *(self.pair or "").split())


def read_input(params: Mapping[str, Any], models: int) -> Input:
    """The input in the parameters of a request; RequestError for what is none. `models`: how many models are open."""
    if not models:
        raise RequestError("no model is open; open one beside what is shown, as in conoscope explore MODEL RESULTS")
    model = whole(params.get("model", 0), "model", 0, models - 1)
    text, pair = params.get("text"), params.get("pair")
    if not isinstance(text, str) or not isinstance(pair, str | None):
        raise RequestError(f"{'the text' if not isinstance(text, str) else 'the pair'} is no string; give one")
    if len(text) + len(pair or "") > CHARACTERS:
        raise RequestError(f"the text has {len(text) + len(pair or ''):,} characters; at most {CHARACTERS:,} are read")
    if not text.strip():
        raise RequestError("the text is empty; type one")
    words = len(text.split()) + len((pair or "").split())
    return Input(model, text, pair, _edits(params.get("edits") or {}, words))


def whole(value: Any, what: str, least: int, most: int) -> int:
    """A whole number between two others; RequestError for anything else."""
    if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= most:
        raise RequestError(f"{what} is {_shown(value)}; give a whole number from {least} to {most}")
    return value


def name_in(value: Any, what: str, known: Sequence[str]) -> str:
    """One of some names; RequestError for anything else."""
    if not isinstance(value, str) or value not in known:
        near = nearest(value, known) if isinstance(value, str) else ""
        raise RequestError(f"no {what} {_shown(value)}{near}; give one of {one_of(known)}")
    return value


def _edits(given: Any, words: int) -> Edits:
    if not isinstance(given, Mapping):
        raise RequestError(f"edits is {_shown(given)}; give an object with {one_of(KEYS)}")
    for key in given:
        name_in(key, "edit", KEYS)
    erase = tuple(dict.fromkeys(_word(number, "erase", words) for number in _list(given.get("erase"), "erase")))
    replace = tuple(sorted(_replaced(given.get("replace") or {}, words).items()))
    if both := {number for number, _ in replace} & set(erase):
        raise RequestError(f"word {min(both)} is both erased and replaced; do one")
    ablate = tuple(sorted({_head(head) for head in _list(given.get("ablate"), "ablate")}))
    how = name_in(given.get("how") or HOWS[0], "way to ablate", HOWS)
    return Edits(tuple(sorted(erase)), replace, ablate, how if ablate else HOWS[0], _steer(given.get("steer")))


def _list(given: Any, what: str) -> Sequence[Any]:
    if given is None:
        return ()
    if not isinstance(given, list | tuple):
        raise RequestError(f"{what} is {_shown(given)}; give a list")
    if len(given) > CHARACTERS:
        raise RequestError(f"{what} lists {len(given):,} things; at most {CHARACTERS:,} are read")
    return given


def _word(number: Any, what: str, words: int) -> int:
    return whole(number, f"a word to {what}", 0, words - 1)


def _replaced(given: Any, words: int) -> dict[int, str]:
    if not isinstance(given, Mapping):
        raise RequestError(f'replace is {_shown(given)}; give an object such as {{"3": "good"}}')
    found: dict[int, str] = {}
    for number, word in given.items():
        known = isinstance(number, str) and number.isascii() and number.isdecimal() and len(number) < 10
        found[_word(int(number) if known else number, "replace", words)] = _string(word)
    if sum(map(len, found.values())) > CHARACTERS:
        raise RequestError(f"the replaced words have more than {CHARACTERS:,} characters; give shorter ones")
    return found


def _string(word: Any) -> str:
    if not isinstance(word, str):
        raise RequestError(f"a word is replaced by {_shown(word)}; give a string")
    return word


def _head(given: Any) -> tuple[int, int]:
    if not isinstance(given, list | tuple) or len(given) != 2:
        raise RequestError(f"a head to ablate is {_shown(given)}; give its layer and its number, as in [2, 5]")
    layer, head = (whole(number, "a layer or head to ablate", 1, 10_000) for number in given)
    return layer, head


def _steer(given: Any) -> Steer | None:
    if given is None:
        return None
    if not isinstance(given, Mapping):
        raise RequestError(f'steer is {_shown(given)}; give an object such as {{"layer": 3, "to": 1, "angle": 30}}')
    angle = _float(given.get("angle"))
    if not -180 <= angle <= 180:
        raise RequestError(f"the angle to steer by is {_shown(given.get('angle'))}; give degrees from -180 to 180")
    layer = whole(given.get("layer"), "the layer to steer in", 0, 10_000)
    to = whole(given.get("to"), "the class to steer to", 0, 10**6)
    return Steer(layer, to, angle) if angle else None


def _float(number: Any) -> float:
    """A number as one with a point; NaN for what is none, or too large."""
    if isinstance(number, bool) or not isinstance(number, int | float):
        return math.nan
    try:
        return float(number)
    except OverflowError:
        return math.nan


def _shown(value: Any) -> str:
    """A value as an error message shows it: short, on one line."""
    if isinstance(value, str | int | float | bool | None):
        text = repr(value) if not isinstance(value, int) or abs(value) < 10**20 else "a huge number"
        return " ".join(text[:60].split())
    return f"of type {type(value).__name__}"
