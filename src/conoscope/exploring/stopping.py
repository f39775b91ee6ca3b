"""Stopping: a model's pass, forward or back, ends in its midst when its request is taken back."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from torch import Tensor, nn

Check = Callable[[], None]
"""What slow work calls between its steps; it raises when the work is to end."""


@contextmanager
def stoppable(module: nn.Module, check: Check, back: bool = False) -> Iterator[None]:
    """Context in which `check` is called before each of the smallest parts of a model, and with `back` in backward passes too."""

    def before(part: nn.Module, given: tuple[Any, ...]) -> None:
        check()

    def after(part: nn.Module, given: tuple[Any, ...], returned: Any) -> None:
        if isinstance(returned, Tensor) and returned.requires_grad:
            returned.register_hook(lambda slope: check())

    parts = [part for part in module.modules() if not any(part.children())]
    handles = [part.register_forward_pre_hook(before) for part in parts]
    handles += [part.register_forward_hook(after) for part in parts] if back else []
    try:
        yield
    finally:
        for handle in handles:
            handle.remove()
