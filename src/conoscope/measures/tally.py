"""Tally: the statistics that the measures need, and the only state of a run.

Small arrays of several batches are buffered and summed together. Since statistics add up in any grouping, this changes no number;
it saves many additions to large sums, and many small kernels on a GPU.
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
    """A statistic of a quantity with its options. Measures with equal needs share one sum; nothing is inferred."""

    statistic: str
    quantity: str
    options: tuple[tuple[str, str], ...] = ()

    @classmethod
    def of(cls, statistic: type[Statistic], quantity: str, **options: str) -> "Need":
        """The need for this statistic of this quantity with these options."""
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
    def _chosen(self) -> dict[str, str]:
        return dict(self.options)

    def compute(self, subject: Subject, before: Statistic | None) -> Statistic | tuple[Any, ...] | None:
        """The arrays of the quantity, or its statistic; None if the subject has no such site. `before`: the sum so far."""
        options: dict[str, Any] = self._chosen
        if self.described.sampled:
            options = {**options, "so_far": before if isinstance(before, Sample) else Sample()}
        computed: Statistic | tuple[Any, ...] | None = self.described.compute(subject, **options)
        return computed

    def reduce(self, arrays: tuple[Any, ...]) -> Statistic:
        """The statistic of the arrays of one batch, or of several batches concatenated."""
        finished = arrays if self.described.finish is None else self.described.finish(*arrays)
        return finished if isinstance(finished, Statistic) else Statistic.kinds[self.statistic].of(*finished)

    def __str__(self) -> str:
        return f"{self.statistic} of {self.quantity}({', '.join(f'{key}={value}' for key, value in self.options)})"


@dataclass
class Tally:
    """The sums so far, by need and layer."""

    needs: tuple[Need, ...]
    sums: dict[tuple[Need, int], Statistic] = field(default_factory=dict)
    _buffers: dict[tuple[Need, int], BatchBuffer] = field(default_factory=dict, repr=False)

    @classmethod
    def for_needs(cls, needs: Iterable[Need]) -> Self:
        """An empty tally; equal needs are kept once."""
        return cls(tuple(dict.fromkeys(needs)))

    @property
    def reductions(self) -> set[str]:
        """The reductions of attention weights to compute; empty if weights need not be captured."""
        return {reduction for need in self.needs for reduction in need.described.reductions}

    @property
    def heads(self) -> dict[int, list[int]]:
        """The heads of each layer whose maps must be kept until the model's output is known."""
        by_layer: dict[int, set[int]] = {}
        for named in (dict(need.options).get("heads") for need in self.needs):
            for layer, heads in heads_of(named).items() if named else ():
                by_layer.setdefault(layer, set()).update(heads)
        return {layer: sorted(heads) for layer, heads in by_layer.items()}

    def wants(self, kind: type[Subject]) -> bool:
        """Whether any need reads this type of subject."""
        return any(need.described.of is kind for need in self.needs)

    def add(self, subject: Subject) -> None:
        """Add one layer of one batch, or of the weights, to the sums."""
        computed: dict[tuple[str, tuple[tuple[str, str], ...]], Any] = {}
        for need in self.needs:
            if not isinstance(subject, need.described.of):
                continue
            key, same = (need, subject.layer), (need.quantity, need.options)
            # Two statistics of one quantity: compute it once. What is computed for a sample depends on the sample.
            part = computed[same] if same in computed else need.compute(subject, self.sums.get(key))
            if not need.described.sampled:
                computed[same] = part
            if isinstance(part, Statistic):
                self._add_part(*key, part)
            elif part is not None:
                self._buffer(key, part)

    def settle(self) -> None:
        """Add all buffered arrays to the sums."""
        for key in self._buffers:
            self._flush(key)

    def _buffer(self, key: tuple[Need, int], arrays: tuple[Any, ...]) -> None:
        buffer = self._buffers.get(key)
        if buffer is None:
            buffer = self._buffers[key] = BatchBuffer()
        if buffer.take(arrays):
            return
        self._flush(key)
        buffer.make_room(arrays, self.sums[key].numel if key in self.sums else 0)
        if not buffer.take(arrays):
            self._add_part(*key, key[0].reduce(arrays))

    def _flush(self, key: tuple[Need, int]) -> None:
        if (arrays := self._buffers[key].leave()) is not None:
            self._add_part(*key, key[0].reduce(arrays))

    def _add_part(self, need: Need, layer: int, part: Statistic) -> None:
        before = self.sums.get((need, layer))
        self.sums[need, layer] = part if before is None else before + part

    def of(self, need: Need) -> Iterator[tuple[int, Statistic]]:
        """The layers with sums of this need, in order, each with its sums."""
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
            both._add_part(need, layer, sums)
        return both

    def save(self, folder: Path) -> None:
        """Write tally.safetensors (the numbers) and tally.json (their needs and layers)."""
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
        """The tally that `save` wrote to this folder."""
        try:
            described = json.loads((folder / "tally.json").read_text(encoding="utf-8"))
            return cls._restored(described, load_file(folder / "tally.safetensors"))
        except (OSError, ValueError, TypeError, LookupError, SafetensorError) as error:
            raise OutputError(
                f"no results can be read from {folder}: {error}; expected a folder written by conoscope measure -o"
            ) from error

    @classmethod
    def _restored(cls, described: Mapping[str, Any], tensors: Mapping[str, Tensor]) -> Self:
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
