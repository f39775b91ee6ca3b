"""Tally: the statistics that some measures need, and the only memory of a run."""

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from operator import itemgetter
from pathlib import Path
from typing import Any, Self

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import Tensor

from conoscope.errors import OutputError
from conoscope.quantities import QUANTITIES
from conoscope.statistics import Statistic
from conoscope.traces import Trace

FORMAT = 1


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

    @property
    def weights(self) -> bool:
        """Whether attention weights must be captured for it."""
        return QUANTITIES[self.quantity].weights

    def of_trace(self, trace: Trace) -> Statistic | None:
        """The statistic of one trace; None where the trace has no such site."""
        found = QUANTITIES[self.quantity].compute(trace, **dict(self.options))
        return found if found is None or isinstance(found, Statistic) else Statistic.kinds[self.statistic].of(*found)

    def __str__(self) -> str:
        return f"{self.statistic} of {self.quantity}({', '.join(f'{key}={value}' for key, value in self.options)})"


@dataclass
class Tally:
    """What has been summed so far, by need and layer."""

    needs: tuple[Need, ...]
    sums: dict[tuple[Need, int], Statistic] = field(default_factory=dict)

    @classmethod
    def for_needs(cls, needs: Iterable[Need]) -> Self:
        """An empty tally; equal needs are kept once."""
        return cls(tuple(dict.fromkeys(needs)))

    @property
    def weights(self) -> bool:
        """Whether attention weights must be captured."""
        return any(need.weights for need in self.needs)

    def add(self, trace: Trace) -> None:
        """Take one layer of one batch into the sums."""
        for need in self.needs:
            part = need.of_trace(trace)
            if part is not None:
                self._put(need, trace.layer, part)

    def _put(self, need: Need, layer: int, part: Statistic) -> None:
        before = self.sums.get((need, layer))
        self.sums[need, layer] = part if before is None else before + part

    def of(self, need: Need) -> Iterator[tuple[int, Statistic]]:
        """The layers that have this need, in order, each with its sums."""
        yield from sorted(((layer, sums) for (kept, layer), sums in self.sums.items() if kept == need), key=itemgetter(0))

    def to(self, device: torch.device) -> Self:
        """The same tally with every sum on this device."""
        return type(self)(self.needs, {key: sums.to(device) for key, sums in self.sums.items()})

    def __add__(self, other: Self) -> Self:
        if set(self.needs) != set(other.needs):
            raise OutputError("these results hold different measures or options; merge parts that were measured alike")
        both = type(self)(self.needs, dict(self.sums))
        for (need, layer), sums in other.sums.items():
            both._put(need, layer, sums)
        return both

    def save(self, folder: Path) -> None:
        """Write tally.safetensors (every number) and tally.json (what they are)."""
        tensors: dict[str, Tensor] = {}
        entries: list[dict[str, Any]] = []
        for number, ((need, layer), sums) in enumerate(self.sums.items()):
            entries.append({"layer": layer, "need": self.needs.index(need)})
            tensors |= {f"{number}/{name}": tensor.cpu().contiguous() for name, tensor in sums.state().items()}
        needs = [{"statistic": need.statistic, "quantity": need.quantity, "options": dict(need.options)} for need in self.needs]
        save_file(tensors, folder / "tally.safetensors")
        (folder / "tally.json").write_text(json.dumps({"format": FORMAT, "needs": needs, "sums": entries}, indent=1) + "\n")

    @classmethod
    def load(cls, folder: Path) -> Self:
        """Read what `save` wrote."""
        try:
            described = json.loads((folder / "tally.json").read_text())
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
