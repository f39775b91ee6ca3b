"""Collector: reduces the layers of one pass as they come, and computes every quantity for all of them at once.

Reductions are computed while a layer's tensors exist, and kept until the end of the pass, or until they fill a budget of memory.
Then they are stacked, and each quantity is computed once for all layers, and for all sites that it is asked for: a GPU runs few
large kernels instead of many small ones, and a CPU few operations.
"""

from collections import Counter
from collections.abc import Callable, Collection, Hashable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from operator import itemgetter
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from conoscope.capture.batch import Batch, Memo
from conoscope.capture.draws import groups_of
from conoscope.capture.trace import PooledOutput, Trace
from conoscope.measures.needs import Key, Need
from conoscope.measures.places import Places, group_of
from conoscope.quantities.classes import Answer
from conoscope.sums.stacked import Slot, Slots

if TYPE_CHECKING:
    from conoscope.measures.tally import Tally

BUDGET = {"cpu": 2**26, "cuda": 5 * 2**26}
"""How many bytes of reductions are kept before quantities are computed of them."""
OF_SOME = {"cpu": 2**26, "cuda": 3 * 2**26}
"""The same for what only quantities of some tokens or examples read: vectors and maps, which are large."""
PER_TOKEN = {False: 40 * 2**10, True: 24 * 2**10}
"""On a GPU no more than so many bytes for each token of a batch: small batches take little memory."""
AddResult = Callable[[Slots, Any, Batch], None]
Kept = dict[Key, dict[int, Tensor]]
Parts = tuple[tuple[Key, int], ...]
Stacks = dict[int, dict[int, Tensor]]
"""Stacked reductions by the number of their parts, whole and of some tokens, which are known by the id of their index."""


@dataclass(frozen=True)
class Stacking:
    """How one parameter of a quantity is stacked: the reduction and the layer of each place; and whether it is of some tokens.

    `number`: a number for these parts, which is faster to look up.
    """

    number: int
    parts: Parts = field(compare=False)
    of_some: bool = field(compare=False)
    constant: bool = field(compare=False)


@dataclass(frozen=True)
class Job:
    """One computation of a quantity: for needs that differ in their site only, in layers whose reductions have the same shapes.

    `slots`: the need and layer of each place of the stack, by layer. `stacks`: how each parameter is stacked.
    """

    need: Need
    slots: tuple[Slot, ...]
    stacks: tuple[tuple[str, Stacking], ...]
    takes: tuple[str, ...]

    @cached_property
    def returned(self) -> Hashable:
        """What several statistics of one quantity have in common: they share what it returns."""
        return "returned", self.need.quantity, self.need.options, self.stacks


def _rounded(number: int) -> int:
    """The largest of 1, 2, 3, 4, 6, 8, 12, 16, … that is at most this number; 1 for 0."""
    power = 1 << max(0, number.bit_length() - 1)
    return power * 3 // 2 if number >= power * 3 // 2 and power > 1 else power


class Collector:
    """Collects one pass over a batch for a tally.

    `places`: the tokens or examples that quantities ask for, of the batch's chosen items. `add_result`: takes what
    a quantity returns; by default the tally adds it to its sums. `only`: compute these needs alone.
    """

    def __init__(
        self,
        tally: "Tally",
        batch: Batch,
        places: Places,
        add_result: AddResult | None = None,
        only: Collection[Need] | None = None,
    ) -> None:
        self.tally, self.batch, self._add_result = tally, batch, add_result or tally.add_result
        self._places, self._whole = places, only is None
        self._kept: Kept = {}
        self._previous: dict[Key, Tensor] = {}
        self._begun = 0
        self._pooled: list[PooledOutput] = []
        self._layers: list[int] = []
        self._idle = places.idle if only is None else places.idle | (frozenset(tally.stacked) - frozenset(only))
        self._of_trace, self._of_answer = tally.reductions_without(self._idle)
        device = batch.real.device.type
        self._room = {False: BUDGET.get(device, BUDGET["cuda"]), True: OF_SOME.get(device, OF_SOME["cuda"])}
        if device != "cpu":
            self._room = {kind: min(room, PER_TOKEN[kind] * batch.real.numel()) for kind, room in self._room.items()}

    # Inference mode makes operations cheaper. Not for the forward pass: a module may cache tensors, and be trained later.
    @torch.inference_mode()
    def receive(self, trace: Trace) -> None:
        """Reduce one layer."""
        layer, current, size = trace.layer, {}, Counter[bool]()
        self._layers.append(layer)
        before = {site for site, same in (("input", trace.goes_on), ("residual", trace.added == "before")) if same} | {"before"}
        for key, reduction in self._of_trace:
            value = None
            if key.site in before and key.as_hidden is not None:
                value = self._previous.get(key.as_hidden)
            if value is None:
                value = self._reduced(key, reduction.compute, trace)
                if value is not None and not reduction.constant:
                    size[key in self.tally.of_some] += value.nbytes
            if value is not None:
                current[key] = value
                self._kept.setdefault(key, {})[layer] = value
        self._previous = current
        # What the trace derived is not needed again, and some of it is large.
        trace.forget()
        # After every 1, 2, 3, 4, 6, … layers, as there is room for: so the same layers come together in most batches.
        full = {kind: layer > 0 and layer % _rounded(self._room[kind] // max(1, size[kind])) == 0 for kind in (False, True)}
        if any(full.values()):
            self._compute(of_some=not full[False])

    @torch.inference_mode()
    def answered(self, pooled: PooledOutput) -> None:
        """Take one layer's vector of each text, and the prediction."""
        self._pooled.append(pooled)
        for key, reduction in self._of_answer:
            if (value := reduction.compute(pooled, **key.chosen)) is not None:
                self._kept.setdefault(key, {})[pooled.layer] = value
        self.tally.add_subject(pooled)

    @torch.inference_mode()
    def end(self) -> None:
        """Compute what is left, at the end of the pass."""
        self._compute()
        if self._whole:
            self._of_prediction()

    def _reduced(self, key: Key, compute: Callable[..., Tensor | None], trace: Trace) -> Tensor | None:
        if key.described.constant:
            return self.tally.constant((key, trace.layer), lambda: compute(trace, **key.chosen))
        if key.described.of_some:
            return compute(trace, **key.chosen, at=self._places.union(key))
        return compute(trace, **key.chosen)

    def _compute(self, of_some: bool = False) -> None:
        """Compute the quantities of the layers so far, all or those of some tokens or examples, and forget what only they
        read."""
        stacks: Stacks = {}
        scope, jobs = Memo(), self._jobs(of_some)
        uses = Counter(stacking.number for job in jobs for _, stacking in job.stacks)
        shared = Counter(job.returned for job in jobs)
        for job in jobs:
            self._run(job, stacks, scope)
            shared[job.returned] -= 1
            if not shared[job.returned]:
                scope.cache.pop(job.returned, None)
            for _, stacking in job.stacks:
                uses[stacking.number] -= 1
                if not uses[stacking.number]:
                    stacks.pop(stacking.number, None)
        self._begun = self._layers[-1] + 1 if self._layers else 0
        self._kept = {key: found for key, found in self._kept.items() if of_some and key not in self.tally.of_some}

    def _jobs(self, of_some: bool) -> Sequence[Job]:
        """The computations for the layers that are kept; the same for every batch that has the same ones."""
        known = frozenset((key, tuple(layers)) for key, layers in self._kept.items())
        families = [family for family in self.tally.families if family[0].some or not of_some]
        return self.tally.jobs(
            (known, self._idle, of_some), lambda: [job for family in families for job in self._jobs_of(family)]
        )

    def _jobs_of(self, family: Sequence[Need]) -> list[Job]:
        groups: dict[Any, list[Slot]] = {}
        for need in family:
            if need in self._idle:
                continue
            required = [self._kept.get(key, {}) for key in need.required]
            for layer in required[0] if required else ():
                # What reads some tokens may have been computed for the layers so far.
                if all(layer in found for found in required[1:]) and not (need.some and layer < self._begun):
                    groups.setdefault(self._shapes(need, layer), []).append((need, layer))
        return [self._job(tuple(sorted(slots, key=itemgetter(1)))) for slots in groups.values()]

    def _shapes(self, need: Need, layer: int) -> tuple[Any, ...]:
        """The shapes of a need's reductions in a layer; of some tokens or examples, which ones instead of how many."""
        found = ((key, self._kept.get(key, {}).get(layer)) for key in need.keys.values())
        shapes = ((key, x if x is None else x.shape) for key, x in found)
        return tuple((group_of(key), shape[1:]) if shape and key.described.of_some else shape for key, shape in shapes)

    def _job(self, slots: tuple[Slot, ...]) -> Job:
        (need, layer), stacks = slots[0], []
        for parameter, key in need.keys.items():
            if layer in self._kept.get(key, {}):
                parts = tuple((slot.keys[parameter], at) for slot, at in slots)
                number = self.tally.number_of(parts)
                stacks.append((parameter, Stacking(number, parts, key.described.of_some, key.described.constant)))
        takes = tuple(name for name in ("batch", "answer", "at", "scope", "slots") if name in need.described.parameters)
        return Job(need, slots, tuple(stacks), takes)

    def _run(self, job: Job, stacks: Stacks, scope: Memo) -> None:
        need = job.need
        if need.described.sample is not None:
            found = self._computed(job, stacks, scope)
        else:
            found = scope.memo(job.returned, lambda: self._computed(job, stacks, scope))
        if found is not None:
            # Arrays of fewer places are those of the last ones.
            count = len(found if isinstance(found, Tensor) else found[0])
            self._add_result(job.slots[-count:], self._with_groups(need, found, count), self.batch)

    def _computed(self, job: Job, stacks: Stacks, scope: Memo) -> Any:
        need, arguments = job.need, dict(job.need.given)
        given = {"batch": self.batch, "scope": scope, "slots": job.slots}
        for name in job.takes:
            if name == "answer":
                arguments[name] = self._answer  # type: ignore[assignment]
            else:
                arguments[name] = self._places.of(need) if name == "at" else given[name]  # type: ignore[assignment]
        for parameter, stacking in job.stacks:
            arguments[parameter] = self._stacked(stacking, need, stacks)  # type: ignore[assignment]
        return need.compute(arguments)

    def _with_groups(self, need: Need, found: Any, layers: int) -> Any:
        """What a quantity returned, with the group of each item if its sums are by group of texts."""
        if not need.grouped:
            return found
        at = self._places.of(need) if need.described.tokens is not None else None
        # One array for all needs of the same items: a replayed batch copies it once.
        groups = self.batch.memo(("groups", id(at), layers), lambda: (groups_of(self.batch, at).expand(layers, -1), at))
        return (*found, groups[0])

    @cached_property
    def _answer(self) -> Answer:
        """The prediction, the same for all layers."""
        return Answer.of(self._pooled[-1])

    def _stacked(self, stacking: Stacking, need: Need, stacks: Stacks) -> Tensor:
        """A reduction of all places of a job, of the tokens that its quantity is about; needs that ask for the same share it."""
        places = self._places.within(stacking.parts[0][0], need) if stacking.of_some else None
        known = stacks.setdefault(stacking.number, {})
        if id(places) not in known:
            if id(None) not in known:
                known[id(None)] = self._stack(stacking)
            if places is not None:
                known[id(places)] = known[id(None)][:, places]
        return known[id(places)]

    def _stack(self, stacking: Stacking) -> Tensor:
        parts = [self._kept[key][layer] for key, layer in stacking.parts]
        if stacking.constant:
            stacked = self.tally.constant(stacking.number, lambda: torch.stack(parts))
            assert stacked is not None
            return stacked
        return torch.stack(parts) if len(parts) > 1 else parts[0][None]

    def _of_prediction(self) -> None:
        """Take the quantities that read the prediction but no layer: counted once, with the last layer."""
        if self._pooled and self._pooled[-1].layer == self._pooled[-1].layers:
            for need in self.tally.of_batch:
                if "answer" in need.described.parameters:
                    found = need.compute({"batch": self.batch, "answer": self._answer})
                    if found is not None:
                        self._add_result(((need, self._pooled[-1].layer),), alone(found), self.batch)


def alone(arrays: tuple[Any, ...]) -> tuple[Any, ...]:
    """The arrays of a quantity that has no layers, with an axis of one layer."""
    return tuple(array[None] if isinstance(array, Tensor) else array for array in arrays)
