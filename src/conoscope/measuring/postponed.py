"""Postponed: sampled examples that are run in batches of their own, after the corpus is read.

Some quantities need whole attention maps of a few examples, which take a GPU as long as many batches. Which examples stay in the
sample is known only at the end. So their tokens are kept until then, and examples that are pushed out of the sample are never
run.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import groupby

import torch
from torch import Tensor

from conoscope.capture.batch import Batch
from conoscope.capture.joining import joined, rows_of
from conoscope.measures.needs import Need
from conoscope.measures.tally import Tally
from conoscope.sums.drawing import Chosen
from conoscope.sums.samples import staying

TOKENS = 2048
"""The largest number of tokens of one batch, unless one text has more: whole attention maps take memory."""


@dataclass(frozen=True)
class Part:
    """Some examples, and which items of them each sample takes."""

    batch: Batch
    chosen: dict[Need, Chosen]

    @property
    def length(self) -> int:
        """The number of tokens of the longest text."""
        return int(self.batch.real.sum(-1).max())

    def singles(self) -> Iterator["Part"]:
        """Each example that is in a sample, by itself."""
        for row in range(len(self.batch.ids)):
            chosen = {need: of.items(of.at == row) for need, of in self.chosen.items()}
            mine = {need: replace(of, at=torch.zeros_like(of.at)) for need, of in chosen.items() if of.count}
            if mine:
                yield Part(rows_of(self.batch, torch.tensor([row])), mine)


class Postponed:
    """The examples to run after the corpus is read."""

    def __init__(self, tally: Tally) -> None:
        self.tally = tally
        self.needs = tuple(need for need in tally.stacked if need.described.postponed)
        self._parts: list[Part] = []

    def postpone(self, batches: Sequence[Batch]) -> None:
        """Move sampled examples from the plans of these batches to here."""
        before = len(self._parts)
        for batch in batches:
            plan = self.tally.planned(batch)
            asked = {need: plan[need] for need in self.needs if need in plan and plan[need].count}
            plan |= {need: of.items(torch.zeros_like(of.at, dtype=torch.bool)) for need, of in asked.items()}
            if asked:
                rows = torch.cat([of.at for of in asked.values()]).unique()
                there = {need: replace(of, at=torch.searchsorted(rows, of.at)) for need, of in asked.items()}
                self._parts += Part(rows_of(batch, rows), there).singles()
        # This is called again before each batch, and most batches add nothing.
        if len(self._parts) == before:
            return
        for need in self.needs:
            self._drop_pushed_out(need)
        self._parts = [part for part in self._parts if part.chosen]

    def parts(self) -> Iterator[Part]:
        """The examples so far, joined to batches, with their plans; afterwards none are left."""
        parts, self._parts = sorted(self._parts, key=lambda part: part.length), []
        for _, alike in groupby(parts, key=lambda part: part.length.bit_length()):
            some = list(alike)
            size = max(1, TOKENS // some[-1].length)
            for begin in range(0, len(some), size):
                yield from self._together(some[begin : begin + size])

    def _together(self, parts: Sequence[Part]) -> Iterator[Part]:
        batch = joined([part.batch for part in parts])
        if batch is None:
            for part in parts:
                yield from self._together([part])
            return
        chosen: dict[Need, Chosen] = {}
        for need in self.needs:
            if mine := [(row, part.chosen[need]) for row, part in enumerate(parts) if need in part.chosen]:
                chosen[need] = Chosen.of_all([replace(of, at=of.at + row) for row, of in mine])
        self.tally.planned(batch).update(chosen)
        yield Part(batch, chosen)

    def _drop_pushed_out(self, need: Need) -> None:
        """Drop the examples that are no longer in the sample."""
        mine = [part for part in self._parts if need in part.chosen]
        if not mine:
            return
        groups, ranks = (torch.cat([getattr(part.chosen[need], name) for part in mine]) for name in ("groups", "ranks"))
        stays = _mask(len(ranks), staying(groups, ranks, mine[0].chosen[need].limits))
        for part, stay in zip(mine, stays.tolist(), strict=True):
            if not stay:
                del part.chosen[need]


def _mask(size: int, places: Tensor) -> Tensor:
    mask = torch.zeros(size, dtype=torch.bool)
    mask[places] = True
    return mask
