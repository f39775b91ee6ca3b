"""Windows: examples of a corpus read some batches ahead, sorted by length, tokenized."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from itertools import islice

import torch

from conoscope.capture.batch import Batch
from conoscope.capture.batcher import Batcher, Row
from conoscope.corpora import Example
from conoscope.measuring.checkpoint import StreamDigest

BATCHES = {"cpu": 32, "cuda": 8}
"""How many batches are sorted by length and sampled from together; fewer on a GPU, whose batches are larger and which waits for
the first window to be tokenized."""


WIDTH_STEP = 16
"""Padded batches on a GPU are as wide as a multiple of this, so that batches of one shape come again and are replayed."""


def width_step_of(device: torch.device) -> int:
    """Of what the width of a padded batch is a multiple for a model on this device."""
    return 1 if device.type == "cpu" else WIDTH_STEP


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

    `advance` does a small part of what the next window needs. Called after each batch is queued on a GPU, it makes use of the
    time in which the GPU computes.
    """

    def __init__(
        self, examples: Iterable[Example], batcher: Batcher, size: int, read: StreamDigest, places: Iterator[int], count: int
    ) -> None:
        """`size`: texts a batch; `read`: what was read before; `places`: the numbers of the examples; `count`: batches in a
        window."""
        self._stream, self._read = read.watch(examples), read
        self._batcher, self._size, self._places, self._count = batcher, size, places, count
        self._unread: list[tuple[Example, int]] | None = None
        self._rows: list[Row] = []
        self._coming: Iterator[Batch] | None = None
        self._ready: list[Batch] = []

    def __next__(self) -> Window:
        while self.advance():
            pass
        batches, self._ready = self._ready, []
        self._unread, self._rows, self._coming = None, [], None
        if not batches:
            raise StopIteration
        read = replace(self._read, classes=dict(self._read.classes), truncated=self._batcher.truncated)
        return Window(batches, read)

    def advance(self) -> bool:
        """Tokenize the texts of two batches of the next window, or, once all are tokenized, put two batches together; False if
        all of it is there. So as many calls as the window has batches are enough."""
        if self._unread is None:
            examples = islice(self._stream, self._size * self._count)
            self._unread = list(zip(examples, self._places, strict=False))
        if self._unread:
            some = 2 * self._size
            self._rows += self._batcher.rows(self._unread[:some])
            self._unread = self._unread[some:]
            return True
        if self._coming is None:
            self._coming = self._batcher.batches_of(self._rows, self._size)
        found = list(islice(self._coming, 2))
        self._ready += found
        return bool(found)
