"""Progress: a bar on a terminal, one line a minute elsewhere."""

import sys
import time
from types import TracebackType
from typing import Self

from tqdm import tqdm

EVERY = 60.0


class Progress:
    """Counts examples on standard error; says nothing where it is not shown."""

    def __init__(self, total: int | None, shown: bool) -> None:
        self.total, self.done = total, 0
        self._lines = shown and not sys.stderr.isatty()
        self._said = self._began = time.monotonic()
        self._bar = tqdm(total=total, unit="example", leave=False, disable=not shown or self._lines, file=sys.stderr)

    def advance(self, count: int) -> None:
        """So many more examples are done."""
        self.done += count
        self._bar.update(count)
        now = time.monotonic()
        if self._lines and now - self._said >= EVERY:
            self._said = now
            of = "" if self.total is None else f" of {self.total}"
            print(f"measured {self.done}{of} examples in {now - self._began:.0f} s", file=sys.stderr, flush=True)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._bar.close()
