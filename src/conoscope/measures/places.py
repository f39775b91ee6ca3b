"""Places: the tokens or examples that quantities ask of a reduction, joined, and where each quantity finds its own."""

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, field

import torch
from jaxtyping import Int
from torch import Tensor

from conoscope.capture.batch import Batch, Memo, sent
from conoscope.capture.draws import keep_on_host
from conoscope.measures.needs import Key, Need
from conoscope.sums.drawing import Chosen

STREAM = ("hidden", "before", "residual")
"""Sites that may be the same vectors in neighbouring layers, of which the same tokens are therefore taken."""


@dataclass(frozen=True)
class Capacities:
    """To how many the places of each sampled need, and of each union, are padded, so that all batches of one shape run the same
    operations. Padding repeats a chosen place; what is computed of it is dropped."""

    of: Mapping[Need, int]
    union: Mapping[Hashable, int] = field(default_factory=dict)


class Places(Memo):
    """The places of one pass. Of all sites but those of the stream the same tokens are taken, so that their rows can be
    stacked."""

    def __init__(
        self, batch: Batch, needs: Sequence[Need], chosen: Mapping[Need, Chosen], capacities: Capacities | None = None
    ) -> None:
        """`capacities`: to how many places to pad; by default there is no padding."""
        self._batch, self._chosen, self._capacities = batch, chosen, capacities
        self.asked: dict[Hashable, None] = {}
        """What was sent one by one so far."""
        self.idle = frozenset(need for need in needs if need.described.sample is not None and not self._count(need))
        """The needs of which nothing is sampled from this batch."""
        self._needs = frozenset(needs) - self.idle
        self._asking: dict[Hashable, dict[Need, None]] = {}
        for need in needs:
            for key in need.some if need in self._needs else ():
                self._asking.setdefault(group_of(key), {})[need] = None

    def of(self, need: Need) -> Tensor:
        """The places that a quantity asks for, on the batch's device."""
        return self._sent(("of", need))

    def union(self, key: Key) -> Tensor:
        """All places that are asked of a reduction, on the batch's device."""
        group = group_of(key)
        found = self._sent(("union", group))
        keep_on_host(self._batch, found, self._union(group)[0])
        return found

    def within(self, key: Key, need: Need) -> Tensor | None:
        """Where a quantity finds its places in the union; None if it is the union."""
        group = group_of(key)
        # Quantities that draw the same tokens share one index.
        return None if self._union(group)[1] else self._sent(("within", group, self._first(need)))

    def on_host(self, name: Hashable) -> Tensor | None:
        """What was sent under this name for an earlier batch, for this one; None if it is not needed."""
        match name:
            case ("of", Need() as need) if need in self._needs:
                return self._on_host(need)
            case ("union", group) if group in self._asking:
                return self._union(group)[0]
            case ("within", group, Need() as need) if group in self._asking and need in self._needs and not self._union(group)[1]:
                return torch.searchsorted(self._union(group)[0], self._on_host(self._first(need)))
        return None

    def joined_sizes(self) -> dict[Hashable, int]:
        """The number of places of each union, without padding."""
        return {group: len(self._joined(group)[0]) for group in self._asking}

    def move(self, moved: Batch, sent: Mapping[Hashable, Tensor]) -> None:
        """Continue with the same batch on its device, where these places lie already."""
        self._batch = moved
        self.cache.update(sent)

    def fits(self) -> bool:
        """Whether all chosen places fit into the capacities."""
        capacities = self._capacities
        if capacities is None:
            return True
        if any(chosen.count > capacities.of.get(need, 0) for need, chosen in self._chosen.items()):
            return False
        return all(size <= capacities.union.get(group, 0) for group, size in self.joined_sizes().items())

    def _sent(self, name: Hashable) -> Tensor:
        def send() -> Tensor:
            self.asked[name] = None
            found = self.on_host(name)
            assert found is not None
            return sent(found, self._batch.real.device)

        found: Tensor = self.memo(name, send)
        return found

    def _union(self, group: Hashable) -> tuple[Tensor, bool]:
        """All places that are asked of a reduction, in the CPU's memory; and whether all ask for the same."""

        def compute() -> tuple[Tensor, bool]:
            joined, same = self._joined(group)
            return (joined if same or self._capacities is None else _padded(joined, self._capacities.union[group])), same

        union: tuple[Tensor, bool] = self.memo(("union on host", group), compute)
        return union

    def _joined(self, group: Hashable) -> tuple[Tensor, bool]:
        def compute() -> tuple[Tensor, bool]:
            first, *others = [self._on_host(need) for need in self._asking[group]]
            # With capacities, what runs must not depend on which places were chosen.
            same = all(first is other or (self._capacities is None and torch.equal(first, other)) for other in others)
            return (first, True) if same else (torch.cat((first, *others)).unique(), False)

        joined: tuple[Tensor, bool] = self.memo(("joined", group), compute)
        return joined

    def _first(self, need: Need) -> Need:
        """The first quantity that asked for the same places."""
        mine = self._on_host(need)
        first: Need = self.memo(("first", id(mine)), lambda: need)
        return first

    def _count(self, need: Need) -> int:
        """How many places of a sampled need are computed."""
        if self._capacities is not None:
            return self._capacities.of.get(need, 0)
        return self._chosen[need].count if need in self._chosen else 0

    def _on_host(self, need: Need) -> Tensor:
        """The places that a quantity asks for, in the CPU's memory; kept, since an index is known by its id."""

        def compute() -> Tensor:
            if need.described.sample is not None:
                return (
                    self._chosen[need].at
                    if self._capacities is None
                    else _padded(self._chosen[need].at, self._capacities.of[need])
                )
            tokens = need.described.tokens
            assert tokens is not None
            found: Tensor = tokens(self._batch.on_host, **need.chosen)
            return found

        places: Tensor = self.memo(("places", need), compute)
        return places


def _padded(places: Int[Tensor, " n"], size: int) -> Int[Tensor, " size"]:
    """These places, padded to `size` with the last of them; with place 0 if there are none."""
    last = places[-1:] if len(places) else places.new_zeros(1)
    return torch.cat((places, last.expand(size - len(places))))


def group_of(key: Key) -> Hashable:
    """The reductions whose places are joined."""
    return key.name if key.site is None else (key.name, key.site in STREAM)
