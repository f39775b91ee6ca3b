"""Tally: the statistics that the measures need, and the only state of a run.

Sums are kept for all layers at once while a run goes on (`sums/stacked.py`), and by need and layer once they are asked for. Small
arrays of several batches are buffered and summed together. Since statistics add up in any grouping, this changes no number; it
saves many additions to large sums, and many small kernels on a GPU.
"""

from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from operator import itemgetter
from typing import Any, Self

import torch
from jaxtyping import Bool
from torch import Tensor

from conoscope.capture.batch import PLAN, Batch
from conoscope.capture.draws import groups_of
from conoscope.capture.sending import is_capturing
from conoscope.capture.trace import HeadWeights, PooledOutput, Trace
from conoscope.common.errors import OutputError
from conoscope.measures.collecting import Collector, Job, alone
from conoscope.measures.needs import Key, Need, keys_of
from conoscope.measures.pending import Pending
from conoscope.measures.places import Places
from conoscope.quantities.base import Reduction, Subject
from conoscope.quantities.class_maps import heads_of
from conoscope.sums.drawing import Chosen, Draw
from conoscope.sums.grouped import GroupedMoments
from conoscope.sums.samples import Sample
from conoscope.sums.stacked import Slots, StackedSample, StackedSums, Summing
from conoscope.sums.statistics import Statistic

There = Callable[[Batch], Bool[Tensor, " b"]]


@dataclass(eq=False)
class Tally:
    """The sums so far, by need and layer."""

    needs: tuple[Need, ...]
    sums: dict[tuple[Need, int], Statistic] = field(default_factory=dict)
    flushes: int = field(default=0, repr=False)
    """How often the sums were flushed: those of the next batches lie in other memory."""
    _summing: dict[Slots, Summing] = field(default_factory=dict, repr=False)
    _stacked: dict[Need, StackedSums] = field(default_factory=dict, repr=False)
    _samples: dict[Slots, StackedSample] = field(default_factory=dict, repr=False)
    _draws: dict[Need, Draw] = field(default_factory=dict, repr=False)
    _pending: list[Pending] = field(default_factory=list, repr=False)
    _constants: dict[Hashable, Any] = field(default_factory=dict, repr=False)
    _jobs: dict[Hashable, Sequence[Job]] = field(default_factory=dict, repr=False)
    _numbers: dict[Hashable, int] = field(default_factory=dict, repr=False)

    @classmethod
    def for_needs(cls, needs: Iterable[Need]) -> Self:
        """An empty tally; equal needs are kept once."""
        return cls(tuple(dict.fromkeys(needs)))

    @cached_property
    def stacked(self) -> tuple[Need, ...]:
        """The needs whose quantities read reductions."""
        return tuple(need for need in self.needs if need.keys)

    @cached_property
    def of_batch(self) -> tuple[Need, ...]:
        """The needs whose quantities read a batch, or its prediction, but no layer."""
        return tuple(need for need in self.needs if not need.keys and need.described.of is None)

    @cached_property
    def readers(self) -> dict[Key, list[Need]]:
        """The reductions to compute, each with the needs that read it."""
        return keys_of(iter(self.stacked))

    @cached_property
    def of_some(self) -> frozenset[Key]:
        """The reductions that only quantities of some tokens or examples read."""
        return frozenset(key for key, needs in self.readers.items() if all(need.some for need in needs))

    @cached_property
    def families(self) -> tuple[tuple[Need, ...], ...]:
        """The needs whose quantities read reductions; those that differ in their site only are computed together."""
        families: dict[Need, list[Need]] = {}
        for need in self.stacked:
            families.setdefault(need.family, []).append(need)
        return tuple(map(tuple, families.values()))

    def reductions_without(self, idle: frozenset[Need]) -> tuple[list[tuple[Key, Reduction]], list[tuple[Key, Reduction]]]:
        """The reductions to compute of a layer, and of its pooled output, for all needs but these."""
        found = [(key, key.described) for key, readers in self.readers.items() if not idle.issuperset(readers)]
        return [x for x in found if x[1].of is Trace], [x for x in found if x[1].of is not Trace]

    def jobs(self, key: Hashable, compute: Callable[[], Sequence[Job]]) -> Sequence[Job]:
        """The computations for some reductions, found once."""
        if key not in self._jobs:
            self._jobs[key] = compute()
        return self._jobs[key]

    @property
    def reductions(self) -> set[str]:
        """The reductions of attention weights to compute; empty if weights need not be captured."""
        return {reduction for need in self.needs for reduction in need.described.weights}

    @property
    def masks(self) -> dict[str, set[str]]:
        """By which masks the vectors of each site are summed."""
        by_site: dict[str, set[str]] = {}
        for key in self.readers:
            if "mask" in key.chosen:
                by_site.setdefault(key.chosen["site"], set()).add(key.chosen["mask"])
        return by_site

    @property
    def heads(self) -> dict[int, list[int]]:
        """The heads of each layer whose maps must be kept until the model's output is known."""
        by_layer: dict[int, set[int]] = {}
        for named in (need.chosen.get("heads") for need in self.needs):
            for layer, heads in heads_of(named).items() if named else ():
                by_layer.setdefault(layer, set()).update(heads)
        return {layer: sorted(heads) for layer, heads in by_layer.items()}

    def wants(self, kind: type[Subject]) -> bool:
        """Whether any need reads this type of subject."""
        reads = (reduction.of is kind for need in self.needs for reduction in need.described.reads.values())
        return any(need.described.of is kind for need in self.needs) or any(reads)

    @property
    def wants_subjects(self) -> bool:
        """Whether any need takes one layer's pooled output at a time, which cannot be recorded."""
        return any(need.described.of is PooledOutput for need in self.needs)

    def plan(self, batches: Sequence[Batch], there: There | None = None) -> None:
        """Decide which items of these batches, which run next, enter each sample: those that are in it after the last of them.

        `there`: a function of a batch to the examples that have a pooled vector, and a label that the model knows; without it,
        samples of pooled vectors are left for later.
        """
        for need in self.stacked:
            if need.described.sample is not None and (there is not None or not need.described.of_pooled):
                coming = [batch for batch in batches if need not in self.planned(batch)]
                for batch, items in zip(coming, self._choose(need, coming, there), strict=True):
                    self.planned(batch)[need] = items

    def planned(self, batch: Batch) -> dict[Need, Chosen]:
        """What was decided for a batch in the CPU's memory so far."""
        chosen: dict[Need, Chosen] = batch.memo((PLAN, self), dict)
        return chosen

    def _choose(self, need: Need, batches: Sequence[Batch], there: There | None) -> list[Chosen]:
        sample, known = need.described.sample, need.described.of_pooled
        assert sample is not None
        if need not in self._draws:
            before = next((sums for (kept, _), sums in self.sums.items() if kept == need), None)
            self._draws[need] = Draw.of(before if isinstance(before, Sample) else None)
        given = [{"there": there(batch)} if known and there is not None else {} for batch in batches]
        candidates = [sample(batch, **more, **need.chosen) for batch, more in zip(batches, given, strict=True)]
        return self._draws[need].choose(candidates)

    def collector(self, batch: Batch, there: There | None = None) -> Collector:
        """A collector of one pass over a batch on the model's device; what was not planned for it is planned for it alone."""
        self.plan([batch.on_host], there)
        return Collector(self, batch, Places(batch, self.stacked, self.planned(batch.on_host)))

    def take_counts(self, batch: Batch) -> None:
        """Add what is counted of a batch in the CPU's memory, whatever the model makes of it."""
        for need in self.of_batch:
            if "answer" not in need.described.parameters:
                found = need.compute({"batch": batch.on_host})
                if found is not None:
                    groups = (groups_of(batch.on_host),) if need.grouped else ()
                    self.add_result(((need, 1),), alone((*found, *groups)), batch)

    def add(self, subject: Subject) -> None:
        """Add one layer of one batch, or of the weights, to the sums."""
        if isinstance(subject, HeadWeights):
            self.add_subject(subject)
            return
        if isinstance(subject, Trace):
            collector = self.collector(subject.batch)
            collector.receive(subject)
            if subject.layer == 1:
                self.take_counts(subject.batch)
        else:
            known = subject.there & (subject.batch.label < subject.classes)
            collector = self.collector(subject.batch, lambda batch: known.cpu())
            collector.answered(subject)
        collector.end()

    def add_subject(self, subject: Subject) -> None:
        """Add what needs one whole subject at a time: the weights of heads, maps by class."""
        for need in self.needs:
            if need.described.of is not None and isinstance(subject, need.described.of):
                part = need.compute_of(subject)
                if part is not None:
                    self._add_part(need, subject.layer, part.to(torch.device("cpu")))

    def add_result(self, slots: Slots, found: Any, batch: Batch) -> None:
        """Add what a quantity returned for some needs and layers: arrays, or the values of chosen items."""
        need: Need = slots[0][0]
        if need.described.sample is not None:
            host = batch.on_host
            chosen = self.planned(host)[need]
            # What is beyond the chosen items filled up a fixed number of places.
            values = found[:, : chosen.count]
            if not chosen.count:
                return
            arriving = Pending.of(slots, chosen, host, values)
            if found.device.type == "cpu":
                self._keep(arriving)
            else:
                self._pending.append(arriving)
            return
        self._summing_of(slots).take(found)

    def buffers(self, slots: Slots, arrays: tuple[Any, ...]) -> bool:
        """Whether arrays like these wait for those of other batches; else they are added to the sums at once."""
        return self._summing[slots].buffers(arrays)

    def add_at_once(self, slots: Slots, arrays: tuple[Any, ...]) -> None:
        """Add arrays to sums that exist, in the same memory."""
        self._summing[slots].add_in_place(arrays)

    def _summing_of(self, slots: Slots) -> Summing:
        summing = self._summing.get(slots)
        if summing is None:
            need: Need = slots[0][0]
            if need.keys:
                summing = Summing(slots, need.reduce, self._stacked.setdefault(need.family, StackedSums()))
            else:
                summing = Summing(slots, need.reduce_one, None)
            self._summing[slots] = summing
        return summing

    def arrive(self) -> None:
        """Keep the sampled values that have arrived in the CPU's memory so far; does not wait."""
        while self._pending and self._pending[0].is_there():
            self._keep(self._pending.pop(0))

    def _keep(self, arrived: Pending) -> None:
        values, sample = arrived.finished(), self._samples.get(arrived.slots)
        if sample is None:
            self._samples[arrived.slots] = StackedSample.of(arrived.slots, arrived.chosen, values)
        else:
            sample.take(arrived.chosen, values)

    def number_of(self, parts: Hashable) -> int:
        """A number for the parts of a stack, the same for the same parts."""
        return self._numbers.setdefault(parts, len(self._numbers))

    def constant(self, key: Hashable, compute: Callable[[], Tensor | None]) -> Tensor | None:
        """What depends on the model only, computed once."""
        if key not in self._constants:
            assert not is_capturing(), "what is computed while a batch is captured has no contents"
            self._constants[key] = compute()
        found: Tensor | None = self._constants[key]
        return found

    @torch.inference_mode()
    def flush(self) -> None:
        """Add all buffered arrays to the sums, by need and layer, in the CPU's memory."""
        for arriving in self._pending:
            self._keep(arriving)
        self._pending = []
        for summing in self._summing.values():
            summing.flush()
        self.flushes += 1
        kept: tuple[dict[Any, Summing] | dict[Any, StackedSums] | dict[Any, StackedSample], ...]
        kept = (self._summing, self._stacked, self._samples)
        self._summing, self._stacked, self._samples = {}, {}, {}
        for sums in (sums for stacked in kept for sums in stacked.values()):
            for (need, layer), part in sums.by_slot():
                self._add_part(need, layer, part)

    def _add_part(self, need: Need, layer: int, part: Statistic) -> None:
        before = self.sums.get((need, layer))
        self.sums[need, layer] = part if before is None else before + part

    def of(self, need: Need) -> Iterator[tuple[int, Statistic]]:
        """The layers with sums of this need, in order, each with its sums, over all groups of texts."""
        for layer, sums in self.kept_of(need):
            yield layer, sums.total() if isinstance(sums, GroupedMoments) else sums

    def kept_of(self, need: Need) -> Iterator[tuple[int, Statistic]]:
        """The same with the sums as they are kept, some of them by group of texts."""
        self.flush()
        yield from sorted(((layer, sums) for (kept, layer), sums in self.sums.items() if kept == need), key=itemgetter(0))

    def __add__(self, other: Self) -> Self:
        if set(self.needs) != set(other.needs):
            raise OutputError("these results hold different measures or options; merge parts that were measured alike")
        self.flush()
        other.flush()
        both = type(self)(self.needs, dict(self.sums))
        for (need, layer), sums in other.sums.items():
            both._add_part(need, layer, sums)
        return both
