"""Requests: what a page asks, read from a message that anybody may have written."""

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from conoscope.common.errors import ConoscopeError

CHARACTERS = 20_000
"""The longest text that a request may hold."""
MESSAGE = 1 << 16
"""The longest message, in bytes."""
NAME = 64
"""The longest name of a verb or a lane."""
LARGEST = 2**53


class RequestError(ConoscopeError):
    """A message that is no request; `number` is its id, if that could be read."""

    number: int | None = None

    @classmethod
    def of(cls, number: int | None, message: str) -> "RequestError":
        """The error of a request whose id was read."""
        error = cls(message)
        error.number = number
        return error


@dataclass(frozen=True)
class Request:
    """A verb with its parameters; a newer request of the same lane takes it back."""

    number: int
    verb: str
    params: Mapping[str, Any] = field(default_factory=dict)
    lane: str | None = None


@dataclass(frozen=True)
class Withdrawal:
    """The number of a request that is taken back."""

    number: int


def read_message(message: str) -> Request | Withdrawal:
    """The request in a message; RequestError if it is too long, no JSON, or no request."""
    # A character may be four bytes, and counting them costs as much as reading them.
    if len(message) > MESSAGE or len(message.encode("utf-8", "replace")) > MESSAGE:
        raise RequestError(f"a message of more than {MESSAGE} bytes is not read; send shorter texts")
    try:
        found = json.loads(message, parse_constant=_refused, parse_float=_finite)
    except (ValueError, RecursionError) as error:
        raise RequestError('the message is no JSON that can be read; expected {"id": 1, "verb": "hello"}') from error
    return read_request(found)


def read_request(found: Any) -> Request | Withdrawal:
    """The request in a value of JSON; RequestError if it is none, or holds a text that is too long."""
    if not isinstance(found, dict):
        raise RequestError('the message is no object; expected {"id": 1, "verb": "hello"}')
    if "cancel" in found:
        return Withdrawal(_number(found["cancel"], "cancel"))
    number = _number(found.get("id"), "id")
    verb, params, lane = found.get("verb"), found.get("params", {}), found.get("lane")
    if not isinstance(verb, str) or len(verb) > NAME:
        raise RequestError.of(number, "the request has no verb; expected a name such as hello")
    if lane is not None and (not isinstance(lane, str) or len(lane) > NAME):
        raise RequestError.of(number, f"the lane is not a name of at most {NAME} characters")
    if not isinstance(params, dict):
        raise RequestError.of(number, "params is no object")
    try:
        return Request(number, verb, _cleaned(params, number), lane)
    except RecursionError as error:
        raise RequestError.of(number, "params is nested too deeply") from error


def _number(value: Any, what: str) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value < LARGEST:
        raise RequestError(f"{what} is not a whole number from 0 on")
    return value


def _cleaned(value: Any, number: int) -> Any:
    """The value; halves of emojis in texts, which no tokenizer takes, are replaced."""
    if isinstance(value, str):
        if len(value) > CHARACTERS:
            raise RequestError.of(number, f"a text has {len(value):,} characters; at most {CHARACTERS:,} are read")
        return value.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    if isinstance(value, dict):
        return {_cleaned(name, number): _cleaned(inner, number) for name, inner in value.items()}
    return [_cleaned(inner, number) for inner in value] if isinstance(value, list) else value


def _refused(constant: str) -> Any:
    raise ValueError(constant)


def _finite(written: str) -> float:
    number = float(written)
    if not math.isfinite(number):
        raise ValueError(written)
    return number
