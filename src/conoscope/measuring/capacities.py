"""Capacities of batches of one shape: to how many the sampled indices are padded, so that all these batches run the same
operations."""

from collections.abc import Mapping

from conoscope.capture.batch import Batch
from conoscope.measures.needs import Need
from conoscope.measures.places import Capacities, Places
from conoscope.measures.tally import Tally

LEAST = 16
"""The smallest capacity of a sample that takes any items."""
SPARE, PATIENCE = 512, 6
"""After this many batches in a row that need less than a third of all capacities, beyond SPARE, the capacities shrink."""
STEP = 256
"""Capacities of unions are multiples of this."""


class ShapeCapacities:
    """Capacities that grow when a batch needs more, and shrink when batches need far less for a while."""

    def __init__(self, tally: Tally) -> None:
        self._tally = tally
        self.current = Capacities({})
        self._oversized = 0
        """For how many batches in a row the capacities were far too large."""

    def places(self, host: Batch) -> Places:
        """The indices of a batch in the CPU's memory, padded to capacities into which they fit."""
        counts = {need: each.count for need, each in self._tally.planned(host).items()}
        places, now = self.padded(host), self.current.of
        # Samples take ever fewer items.
        self._oversized = self._oversized + 1 if sum(now.values()) > SPARE + 3 * sum(counts.values()) else 0
        if self._oversized > PATIENCE:
            asked = {**dict.fromkeys(now, 0), **counts}
            self._change(host, {need: max(_capacity(n), LEAST if now.get(need) else 0) for need, n in asked.items()})
            places = self.padded(host)
        elif not places.fits():
            grown = {need: max(now.get(need, 0), _capacity(count)) for need, count in counts.items()}
            self._change(host, grown, self.current.union)
            places = self.padded(host)
        assert not any(counts.get(need) for need in places.idle), "sampled items would be lost"
        return places

    def padded(self, host: Batch) -> Places:
        """The indices of a batch, padded to the capacities as they are."""
        return self._with(host, self.current)

    def _with(self, host: Batch, capacities: Capacities) -> Places:
        return Places(host, self._tally.stacked, self._tally.planned(host), capacities)

    def _change(self, host: Batch, of: dict[Need, int], least: Mapping[object, int] | None = None) -> None:
        sizes, least = self._with(host, Capacities(of)).joined_sizes(), least or {}
        self.current = Capacities(of, {group: max(least.get(group, 0), _of_union(size)) for group, size in sizes.items()})
        self._oversized = 0


def _capacity(count: int) -> int:
    """The capacity for a sample that takes so many items: later batches rarely take many more."""
    return count * 5 // 4 + LEAST if count else 0


def _of_union(size: int) -> int:
    return -(-(size + size // 16) // STEP) * STEP
