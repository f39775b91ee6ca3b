"""Places: the tokens or examples that quantities ask of a reduction, joined, and where each quantity finds its own."""

from collections.abc import Callable, Hashable, Mapping, Sequence

import torch
from torch import Tensor

from conoscope.capture.batch import Batch, Memo, sent
from conoscope.capture.draws import keep_on_host
from conoscope.measures.needs import Key, Need
from conoscope.sums.drawing import Chosen

STREAM = ("hidden", "before", "residual")
"""Sites that may be the same vectors in neighbouring layers, of which the same tokens are therefore taken."""


class Places(Memo):
    """The places of one pass. Of all sites but those of the stream the same tokens are taken, so that their rows can be
    stacked."""

    def __init__(self, batch: Batch, needs: Sequence[Need], chosen: Mapping[Need, Chosen]) -> None:
        self._batch, self._chosen = batch, chosen
        self._asked: dict[Hashable, dict[Need, None]] = {}
        for need in needs:
            for key in need.some:
                self._asked.setdefault(group_of(key), {})[need] = None

    def of(self, need: Need) -> Tensor:
        """The places that a quantity asks for, on the batch's device."""
        return self._sent(("of", need), lambda: self._on_host(need))

    def union(self, key: Key) -> Tensor:
        """All places that are asked of a reduction, on the batch's device."""
        group = group_of(key)
        found = self._sent(("union", group), lambda: self._union(group)[0])
        keep_on_host(self._batch, found, self._union(group)[0])
        return found

    def within(self, key: Key, need: Need) -> Tensor | None:
        """Where a quantity finds its places in the union; None if it is the union."""
        group = group_of(key)
        union, same = self._union(group)
        if same:
            return None
        mine = self._on_host(need)
        # Quantities that draw the same tokens share one index.
        return self._sent(("within", group, id(mine)), lambda: torch.searchsorted(union, mine))

    def _sent(self, key: Hashable, compute: Callable[[], Tensor]) -> Tensor:
        found: Tensor = self.memo(key, lambda: sent(compute(), self._batch.real.device))
        return found

    def _union(self, group: Hashable) -> tuple[Tensor, bool]:
        """All places that are asked of a reduction, in the CPU's memory; and whether all ask for the same."""

        def compute() -> tuple[Tensor, bool]:
            first, *others = [self._on_host(need) for need in self._asked[group]]
            same = all(first is other or torch.equal(first, other) for other in others)
            return (first, True) if same else (torch.cat((first, *others)).unique(), False)

        union: tuple[Tensor, bool] = self.memo(("on host", group), compute)
        return union

    def _on_host(self, need: Need) -> Tensor:
        """The places that a quantity asks for, in the CPU's memory; kept, since an index is known by its id."""
        if need in self._chosen:
            return self._chosen[need].at
        tokens = need.described.tokens
        assert tokens is not None
        found: Tensor = self.memo(("tokens", need), lambda: tokens(self._batch.on_host, **need.chosen))
        return found


def group_of(key: Key) -> Hashable:
    """The reductions whose places are joined."""
    return key.name if key.site is None else (key.name, key.site in STREAM)
