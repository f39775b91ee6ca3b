"""Need: a statistic of a quantity with its options, and the reductions that it reads."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from torch import Tensor

from conoscope.quantities import QUANTITIES, Quantity
from conoscope.quantities.base import REDUCTIONS, Reduction, Subject, site_of
from conoscope.sums.grouped import GroupedMoments
from conoscope.sums.statistics import Statistic


@dataclass(frozen=True)
class Key:
    """A reduction with its options."""

    name: str
    options: tuple[tuple[str, str], ...] = ()

    def __hash__(self) -> int:
        return self._hash

    @cached_property
    def _hash(self) -> int:
        return hash((self.name, self.options))

    @cached_property
    def described(self) -> Reduction:
        """The registered Reduction."""
        return REDUCTIONS[self.name]

    @cached_property
    def chosen(self) -> dict[str, str]:
        """The options by name."""
        return dict(self.options)

    @cached_property
    def site(self) -> str | None:
        """The site that it reads, if it reads vectors."""
        return self.chosen.get("site")

    @cached_property
    def as_hidden(self) -> "Key | None":
        """The same reduction of a layer's output, which the next layer may read; None if it is not of a site of the stream.

        Rows of `input` are not of the same tokens.
        """
        if self.site is None or (self.described.of_some and self.site == "input"):
            return None
        return Key(self.name, tuple(sorted({**self.chosen, "site": "hidden"}.items())))


@dataclass(frozen=True)
class Need:
    """A statistic of a quantity with its options. Measures with equal needs share one sum; nothing is inferred."""

    statistic: str
    quantity: str
    options: tuple[tuple[str, str], ...] = ()

    @classmethod
    def of(cls, statistic: type[Statistic], quantity: str, **options: str) -> "Need":
        """The need for this statistic of a quantity with these options."""
        return cls(statistic.__name__, quantity, tuple(sorted(options.items())))

    def __hash__(self) -> int:
        return self._hash

    @cached_property
    def _hash(self) -> int:
        return hash((self.statistic, self.quantity, self.options))

    @cached_property
    def described(self) -> Quantity:
        """The registered Quantity."""
        return QUANTITIES[self.quantity]

    @cached_property
    def chosen(self) -> dict[str, str]:
        """The options by name."""
        return dict(self.options)

    @cached_property
    def keys(self) -> dict[str, Key]:
        """The reductions that the quantity reads under these options, by the name of its parameter."""
        return {name: self._key(name, reduction) for name, reduction in self.described.reads.items()}

    def _key(self, parameter: str, reduction: Reduction) -> Key:
        site = site_of(parameter, self.chosen)
        known = {**self.chosen, **({} if site is None else {"site": site})}
        return Key(reduction.name, tuple(sorted((name, known[name]) for name in reduction.parameters if name != "at")))

    @cached_property
    def some(self) -> tuple[Key, ...]:
        """The reductions of which it asks some tokens or examples."""
        return tuple(key for key in self.keys.values() if key.described.of_some)

    @cached_property
    def family(self) -> "Need":
        """What needs that differ only in their site have in common."""
        return Need(self.statistic, self.quantity, tuple(option for option in self.options if option[0] != "site"))

    @cached_property
    def required(self) -> tuple[Key, ...]:
        """The reductions without which nothing is computed."""
        return tuple(key for name, key in self.keys.items() if not self.described.is_optional(name))

    @cached_property
    def given(self) -> dict[str, str]:
        """The options that the quantity takes as arguments."""
        return {name: value for name, value in self.options if name in self.described.parameters}

    @cached_property
    def function(self) -> Callable[..., Any]:
        """The quantity."""
        return self.described.compute

    def compute(self, arguments: Mapping[str, Any]) -> Any:
        """The quantity, of these reductions and what else it takes, options among them."""
        return self.function(**arguments)

    def compute_of(self, subject: Subject) -> Statistic | None:
        """The statistic of a subject that is taken as a whole, one layer at a time."""
        found: Statistic | None = self.described.compute(subject, **self.given)
        return found

    def reduce(self, arrays: tuple[Any, ...]) -> Statistic:
        """The statistic of the arrays of one batch, or of several batches concatenated: layers first, items second."""
        arrays, groups = (arrays[:-1], arrays[-1:]) if self.grouped else (arrays, ())
        finished = arrays if self.described.finish is None else self.described.finish(*arrays)
        if isinstance(finished, Statistic):
            return finished
        # A statistic takes items first; layers are among its kept axes.
        first = (array.transpose(0, 1) if isinstance(array, Tensor) else array for array in (*groups, *finished))
        return self.kind.of(*first)

    def reduce_one(self, arrays: tuple[Any, ...]) -> Statistic:
        """The same for a quantity of a batch, which has no layers: the first axis has one place."""
        arrays = (arrays[-1], *arrays[:-1]) if self.grouped else arrays
        return self.kind.of(*(array[0] if isinstance(array, Tensor) else array for array in arrays))

    @cached_property
    def grouped(self) -> bool:
        """Whether its sums are kept by group of texts: the group of each item is then the last of its arrays."""
        return self.kind is GroupedMoments

    @property
    def kind(self) -> type[Statistic]:
        """The class of the statistic."""
        return Statistic.kinds[self.statistic]

    def __str__(self) -> str:
        return f"{self.statistic} of {self.quantity}({', '.join(f'{key}={value}' for key, value in self.options)})"


def keys_of(needs: Iterator[Need]) -> dict[Key, list[Need]]:
    """The reductions that some needs read, each with its readers."""
    readers: dict[Key, list[Need]] = {}
    for need in needs:
        for key in dict.fromkeys(need.keys.values()):
            readers.setdefault(key, []).append(need)
    return readers
