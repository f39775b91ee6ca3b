"""Windows: examples of a corpus read some batches ahead, sorted by length, tokenized."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from itertools import islice

import torch

from conoscope.capture.batch import Batch
from conoscope.capture.batcher import Batcher
from conoscope.corpora import Example
from conoscope.measuring.checkpoint import StreamDigest

BATCHES = {"cpu": 32, "cuda": 8}
"""How many batches are sorted by length and sampled from together; fewer on a GPU, whose batches are larger and which waits for
the first window to be tokenized."""


def batches_of(device: torch.device) -> int:
    """How many batches a window has for a model on this device."""
    return BATCHES.get(device.type, BATCHES["cuda"])


@dataclass(frozen=True)
class Window:
    """Some batches, and what was read of the corpus up to their end."""

    batches: list[Batch]
    read: StreamDigest


class Windows(Iterator[Window]):
    """The windows of a corpus, one after the other.

    `advance` tokenizes one batch of the next window. Called after each batch is queued on a GPU, it makes use of the time in
    which the GPU computes.
    """

    def __init__(
        self, examples: Iterable[Example], batcher: Batcher, size: int, read: StreamDigest, places: Iterator[int], count: int
    ) -> None:
        """`size`: texts a batch; `read`: what was read before; `places`: the numbers of the examples; `count`: batches in a
        window."""
        self._stream, self._read = read.watch(examples), read
        self._batcher, self._size, self._places, self._count = batcher, size, places, count
        self._coming: Iterator[Batch] | None = None
        self._ready: list[Batch] = []

    def __next__(self) -> Window:
        while self.advance():
            pass
        batches, self._ready, self._coming = self._ready, [], None
        if not batches:
            raise StopIteration
        read = replace(self._read, classes=dict(self._read.classes), truncated=self._batcher.truncated)
        return Window(batches, read)

    def advance(self) -> bool:
        """Tokenize one batch of the next window; False if all of it is."""
        if self._coming is None:
            examples = list(islice(self._stream, self._size * self._count))
            self._coming = self._batcher.batches(examples, self._size, self._places)
        batch = next(self._coming, None)
        if batch is not None:
            self._ready.append(batch)
        return batch is not None
