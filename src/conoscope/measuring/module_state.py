"""Module state: the tensors that a model's modules keep between batches, beside their parameters."""

from collections import deque
from types import BuiltinFunctionType, FunctionType, MethodType, ModuleType
from typing import Any, Self

from torch import Tensor, nn

CONTAINERS = (dict, list, tuple, set, frozenset, deque)
OPAQUE = (Tensor, nn.Module, type, ModuleType, FunctionType, BuiltinFunctionType, MethodType)
"""What is not searched for tensors: modules are visited one by one."""
OF_ANY_MODULE = frozenset(vars(nn.Module())) - {"_buffers"}
"""The attributes that every module has: parameters, children, hooks."""


class ModuleState:
    """What the modules of a model hold at one moment: tables of positions, masks of the last length, and similar.

    A captured graph reads such tensors where they were. So it is valid only as long as the model holds the same ones, with the
    same contents: torch counts the writes to each.
    """

    def __init__(self, contents: list[tuple[Any, Any]]) -> None:
        self._contents = contents
        self._tensors = [x for _, copied in contents for x in _values(copied) if isinstance(x, Tensor)]
        self._writes = [None if x.is_inference() else x._version for x in self._tensors]

    @classmethod
    def of(cls, module: nn.Module) -> Self:
        """What the modules of this model hold now."""
        contents: dict[int, tuple[Any, Any]] = {}
        for part in module.modules():
            attributes = vars(part)
            contents[id(attributes)] = attributes, dict(attributes)
            for name, value in attributes.items():
                if name not in OF_ANY_MODULE:
                    _add_containers(value, contents)
        return cls(list(contents.values()))

    def holds_the_same_tensors(self, other: Self) -> bool:
        """Whether both are of the same tensors, at the same places, and nothing was written to them in between."""
        pairs = zip(self._tensors, other._tensors, strict=False)
        return self._writes == other._writes and all(one is another for one, another in pairs)

    def restore(self) -> None:
        """Make the modules hold this again; what was written into a tensor stays."""
        for container, copied in self._contents:
            if isinstance(container, dict | set):
                container.clear()
                container.update(copied)
            elif isinstance(container, list):
                container[:] = copied
            elif isinstance(container, deque):
                container.clear()
                container.extend(copied)


def _add_containers(value: Any, contents: dict[int, tuple[Any, Any]]) -> None:
    """Add the containers that a value is made of, the attributes of objects among them, each with a copy, by their ids; one may
    hold itself."""
    waiting = [value]
    while waiting:
        found = waiting.pop()
        if isinstance(found, OPAQUE):
            continue
        container = found if isinstance(found, CONTAINERS) else getattr(found, "__dict__", None)
        if isinstance(container, CONTAINERS) and id(container) not in contents:
            contents[id(container)] = container, container if isinstance(container, tuple | frozenset) else container.copy()
            waiting += _values(container)


def _values(container: Any) -> list[Any]:
    return list(container.values() if isinstance(container, dict) else container)
