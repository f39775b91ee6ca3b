"""CorpusList: the texts of a corpus, read once in the background, within a number of bytes, and searched as bytes."""

import threading
from bisect import bisect_right
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from jaxtyping import Int

from conoscope.common.errors import ConoscopeError
from conoscope.corpora import Corpus, Example
from conoscope.corpora.base import Notes

ROOM = 256 << 20
"""How many bytes of texts are kept."""
STEP = 256
"""Texts are added so many at a time."""
SEARCHES = 8
"""How many searches are remembered, so that the next page of one costs nothing."""
END = b"\0"


class CorpusList:
    """Texts by their number in the corpus. They are read in a thread of their own; what was read so far can be asked for."""

    def __init__(self, corpus: Corpus, room: int = ROOM) -> None:
        self.corpus, self.room = corpus, room
        self.examples: list[Example] = []
        self.cut = False
        self.error: str | None = None
        self._nbytes = 0
        self._gold: list[int] = []
        self._numbers: dict[str, int] = {}
        self._labels = {label: number for number, label in enumerate(corpus.labels)}
        self._haystack = bytearray()
        self._starts: list[int] = []
        self._searches: OrderedDict[str, tuple[int, Int[np.ndarray, " k"]]] = OrderedDict()
        self._lock = threading.Lock()
        self._changed = threading.Condition(self._lock)
        self._done = False
        self._stopped = False
        self._thread: threading.Thread | None = None

    def start(self) -> None:
        """Begin to read, if it has not begun."""
        with self._lock:
            if self._thread is None:
                self._thread = threading.Thread(target=self._read, name="conoscope-texts", daemon=True)
                self._thread.start()

    def wait(self, count: int | None = None, seconds: float | None = None) -> bool:
        """Wait until so many texts are read, or all; whether they are."""
        self.start()
        with self._changed:
            return self._changed.wait_for(lambda: self._done or (count is not None and len(self.examples) >= count), seconds)

    def close(self) -> None:
        """Stop reading."""
        self._stopped = True

    @property
    def done(self) -> bool:
        """Whether nothing more is read."""
        return self._done

    def number_of(self, name: str) -> int | None:
        """The number of the example of this id; None if it is not among those that were read."""
        with self._lock:
            return self._numbers.get(name)

    def found(self, query: str) -> Int[np.ndarray, " k"]:
        """The numbers of the texts that hold a query as it is written, upper and lower case aside, in the order of the corpus."""
        needle = _folded(query)
        with self._lock:
            count = len(self.examples)
            if not needle:
                return np.arange(count)
            before = self._searches.pop(query, None)
            if before is None or before[0] != count:
                before = count, self._matches(needle)
            self._searches[query] = before
            while len(self._searches) > SEARCHES:
                self._searches.popitem(last=False)
            return before[1]

    def labels(self) -> Int[np.ndarray, " n"]:
        """The number of each text's label among those of the corpus; -1 for a text without one."""
        with self._lock:
            return np.array(self._gold, dtype=np.int64)

    def _matches(self, needle: bytes) -> Int[np.ndarray, " k"]:
        numbers: list[int] = []
        at = self._haystack.find(needle)
        while at >= 0:
            number = bisect_right(self._starts, at) - 1
            numbers.append(number)
            # On to the next text: one match is enough.
            at = self._haystack.find(needle, self._starts[number + 1]) if number + 1 < len(self._starts) else -1
        return np.array(numbers, dtype=np.int64)

    def _read(self) -> None:
        some: list[Example] = []
        try:
            for example in self.corpus.read(Notes()):
                some.append(example)
                if len(some) >= STEP:
                    self._add(some)
                    some = []
                if self._stopped or self.cut:
                    break
        except ConoscopeError as error:
            self.error = str(error)
        self._add(some)
        with self._changed:
            self._done = True
            self._changed.notify_all()

    def _add(self, some: Sequence[Example]) -> None:
        with self._changed:
            for example in some:
                folded = _folded(f"{example.text}\n{example.pair or ''}")
                self._nbytes += 3 * len(folded)
                if self._nbytes > self.room:
                    self.cut = True
                    break
                number = len(self.examples)
                named = example if example.id else replace(example, id=f"{self.corpus}:{number + 1}")
                self.examples.append(named)
                self._gold.append(-1 if named.label is None else self._labels.get(named.label, -1))
                self._numbers.setdefault(named.id, number)
                self._starts.append(len(self._haystack))
                self._haystack += folded + END
            self._changed.notify_all()


def _folded(text: str) -> bytes:
    """The text in lower case as bytes, in which no byte ends it."""
    return text.casefold().replace("\0", " ").encode("utf-8", "replace")
