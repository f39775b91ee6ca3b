"""Tally: the statistics that some measures need, and the only memory of a run.

Small arrays of several batches wait and are summed together: by the law that changes no number, and it saves the adding of
large sums to small ones, and on a GPU the many small kernels.
"""

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from operator import itemgetter
from pathlib import Path
from typing import Any, Self

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import Tensor

from conoscope.common.errors import OutputError
from conoscope.common.writing import atomic, write_text
from conoscope.quantities import QUANTITIES, Quantity, Subject
from conoscope.quantities.class_maps import heads_of
from conoscope.sums.buffer import BatchBuffer
from conoscope.sums.samples import Sample
from conoscope.sums.statistics import Statistic

FORMAT = 2


@dataclass(frozen=True)
class Need:
    """A statistic of a quantity with its options. Two measures with equal needs share one sum; nothing is inferred."""

    statistic: str
    quantity: str
    options: tuple[tuple[str, str], ...] = ()

    @classmethod
    def of(cls, statistic: type[Statistic], quantity: str, **options: str) -> "Need":
        """The need for `statistic` of `quantity` with these options."""
        return cls(statistic.__name__, quantity, tuple(sorted(options.items())))

    def __hash__(self) -> int:
        return self._hash

    @cached_property
    def _hash(self) -> int:
        return hash((self.statistic, self.quantity, self.options))

    @cached_property
    def described(self) -> Quantity:
        """The quantity by that name."""
        return QUANTITIES[self.quantity]

    @cached_property
    def _chosen(self) -> dict[str, str]:
        return dict(self.options)

    def compute(self, subject: Subject, before: Statistic | None) -> Statistic | tuple[Any, ...] | None:
        """The arrays of the quantity, or its statistic, given what is summed already; None where the subject has no such site."""
        options: dict[str, Any] = self._chosen
        if self.described.sampled:
            options = {**options, "so_far": before if isinstance(before, Sample) else Sample()}
        answer: Statistic | tuple[Any, ...] | None = self.described.compute(subject, **options)
        return answer

    def reduce(self, arrays: tuple[Any, ...]) -> Statistic:
        """The statistic of the arrays of one batch, or of several concatenated."""
        done = arrays if self.described.finish is None else self.described.finish(*arrays)
        return done if isinstance(done, Statistic) else Statistic.kinds[self.statistic].of(*done)

    def __str__(self) -> str:
        return f"{self.statistic} of {self.quantity}({', '.join(f'{key}={value}' for key, value in self.options)})"


@dataclass
class Tally:
    """What has been summed so far, by need and layer."""

    needs: tuple[Need, ...]
    sums: dict[tuple[Need, int], Statistic] = field(default_factory=dict)
    _buffers: dict[tuple[Need, int], BatchBuffer] = field(default_factory=dict, repr=False)

    @classmethod
    def for_needs(cls, needs: Iterable[Need]) -> Self:
        """An empty tally; equal needs are kept once."""
        return cls(tuple(dict.fromkeys(needs)))

    @property
    def reductions(self) -> set[str]:
        """What must be seen of the attention weights; nothing where they need not be captured."""
        return {look for need in self.needs for look in need.described.reductions}

    @property
    def heads(self) -> dict[int, list[int]]:
        """The heads of each layer whose maps must be kept until the model has answered."""
        found: dict[int, set[int]] = {}
        for named in (dict(need.options).get("heads") for need in self.needs):
            for layer, heads in heads_of(named).items() if named else ():
                found.setdefault(layer, set()).update(heads)
        return {layer: sorted(heads) for layer, heads in found.items()}

    def wants(self, kind: type[Subject]) -> bool:
        """Whether any of the needs is of this kind of subject."""
        return any(need.described.of is kind for need in self.needs)

    def add(self, subject: Subject) -> None:
        """Take one layer of one batch, or of the weights, into the sums."""
        computed: dict[tuple[str, tuple[tuple[str, str], ...]], Any] = {}
        for need in self.needs:
            if not isinstance(subject, need.described.of):
                continue
            key, same = (need, subject.layer), (need.quantity, need.options)
            # Two statistics of one quantity: it is computed once. What is computed for a sample depends on the sample.
            found = computed[same] if same in computed else need.compute(subject, self.sums.get(key))
            if not need.described.sampled:
                computed[same] = found
            if isinstance(found, Statistic):
                self._put(*key, found)
            elif found is not None:
                self._wait(key, found)

    def settle(self) -> None:
        """Take all that waits into the sums."""
        for key in self._buffers:
            self._settle(key)

    def _wait(self, key: tuple[Need, int], found: tuple[Any, ...]) -> None:
        waiting = self._buffers.get(key)
        if waiting is None:
            waiting = self._buffers[key] = BatchBuffer()
        if waiting.take(found):
            return
        self._settle(key)
        waiting.make_room(found, self.sums[key].numel if key in self.sums else 0)
        if not waiting.take(found):
            self._put(*key, key[0].reduce(found))

    def _settle(self, key: tuple[Need, int]) -> None:
        if (arrays := self._buffers[key].leave()) is not None:
            self._put(*key, key[0].reduce(arrays))

    def _put(self, need: Need, layer: int, part: Statistic) -> None:
        before = self.sums.get((need, layer))
        self.sums[need, layer] = part if before is None else before + part

    def of(self, need: Need) -> Iterator[tuple[int, Statistic]]:
        """The layers that have this need, in order, each with its sums."""
        self.settle()
        yield from sorted(((layer, sums) for (kept, layer), sums in self.sums.items() if kept == need), key=itemgetter(0))

    def to(self, device: torch.device) -> Self:
        """The same tally with every sum on this device."""
        self.settle()
        return type(self)(self.needs, {key: sums.to(device) for key, sums in self.sums.items()})

    def __add__(self, other: Self) -> Self:
        if set(self.needs) != set(other.needs):
            raise OutputError("these results hold different measures or options; merge parts that were measured alike")
        self.settle()
        other.settle()
        both = type(self)(self.needs, dict(self.sums))
        for (need, layer), sums in other.sums.items():
            both._put(need, layer, sums)
        return both

    def save(self, folder: Path) -> None:
        """Write tally.safetensors (every number) and tally.json (what they are)."""
        self.settle()
        tensors: dict[str, Tensor] = {}
        entries: list[dict[str, Any]] = []
        for number, ((need, layer), sums) in enumerate(self.sums.items()):
            entries.append({"layer": layer, "need": self.needs.index(need)})
            tensors |= {f"{number}/{name}": tensor.cpu().contiguous() for name, tensor in sums.state().items()}
        needs = [{"statistic": need.statistic, "quantity": need.quantity, "options": dict(need.options)} for need in self.needs]
        with atomic(folder / "tally.safetensors") as beside:
            save_file(tensors, beside)
        write_text(folder / "tally.json", json.dumps({"format": FORMAT, "needs": needs, "sums": entries}, indent=1) + "\n")

    @classmethod
    def load(cls, folder: Path) -> Self:
        """Read what `save` wrote."""
        try:
            described = json.loads((folder / "tally.json").read_text(encoding="utf-8"))
            return cls._described(described, load_file(folder / "tally.safetensors"))
        except (OSError, ValueError, TypeError, LookupError, SafetensorError) as error:
            raise OutputError(
                f"no results can be read from {folder}: {error}; expected a folder written by conoscope measure -o"
            ) from error

    @classmethod
    def _described(cls, described: Mapping[str, Any], tensors: Mapping[str, Tensor]) -> Self:
        if described["format"] != FORMAT:
            raise OutputError(
                f"these results were written in format {described['format']}, and this is format {FORMAT}; measure again"
            )
        needs = tuple(Need(n["statistic"], n["quantity"], tuple(sorted(n["options"].items()))) for n in described["needs"])
        keys = [(needs[entry["need"]], entry["layer"]) for entry in described["sums"]]
        return cls(needs, {key: _restore(key[0], f"{number}/", tensors) for number, key in enumerate(keys)})


def _restore(need: Need, prefix: str, tensors: Mapping[str, Tensor]) -> Statistic:
    state = {name.removeprefix(prefix): tensor for name, tensor in tensors.items() if name.startswith(prefix)}
    return Statistic.kinds[need.statistic].restore(state)
