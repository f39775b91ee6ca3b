"""Checks shapes and types at every call of conoscope's functions, under pytest only."""

from collections.abc import Callable
from typing import Any, Self

from beartype import BeartypeConf, beartype

CONFIGURATION = BeartypeConf(is_pep484_tower=True)


def check(function: Callable[..., Any]) -> Callable[..., Any]:
    """beartype, which knows `Self` only where it decorates the whole class: here it stands for anything."""
    if hasattr(function, "__annotations__"):
        function.__annotations__ = {name: Any if hint is Self else hint for name, hint in function.__annotations__.items()}
    return beartype(conf=CONFIGURATION)(function)
