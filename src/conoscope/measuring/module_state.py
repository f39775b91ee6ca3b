"""Module state: the tensors that a model's modules keep between batches, beside their parameters."""

from typing import Any, Self

from torch import Tensor, nn

OF_ANY_MODULE = frozenset(vars(nn.Module())) - {"_buffers"}
"""The attributes that every module has: parameters, children, hooks."""


class ModuleState:
    """What the modules of a model hold at one moment: tables of positions, masks of the last length, and similar.

    A captured graph reads such tensors where they were. So it is valid only as long as the model holds the same ones.
    """

    def __init__(self, contents: list[tuple[Any, Any]]) -> None:
        self._contents = contents
        self._tensors = [x for _, copied in contents for x in _values(copied) if isinstance(x, Tensor)]

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
        """Whether both are of the same tensors, at the same places."""
        pairs = zip(self._tensors, other._tensors, strict=False)
        return len(self._tensors) == len(other._tensors) and all(one is another for one, another in pairs)

    def restore(self) -> None:
        """Make the modules hold this again."""
        for container, copied in self._contents:
            if isinstance(container, dict):
                container.clear()
                container.update(copied)
            elif isinstance(container, list):
                container[:] = copied


def _add_containers(value: Any, contents: dict[int, tuple[Any, Any]]) -> None:
    """Add the dictionaries, lists and tuples that a value is made of, each with a copy, by their ids; one may hold itself."""
    if isinstance(value, dict | list | tuple) and id(value) not in contents:
        contents[id(value)] = value, value if isinstance(value, tuple) else value.copy()
        for inner in _values(value):
            _add_containers(inner, contents)


def _values(container: Any) -> list[Any]:
    return list(container.values() if isinstance(container, dict) else container)
