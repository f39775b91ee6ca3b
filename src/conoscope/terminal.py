"""What a terminal is shown: progress, and text that cannot steer it."""

import sys
import time
from types import TracebackType
from typing import Self

from tqdm import tqdm

EVERY = 60.0


class Progress:
    """Counts examples, or another unit, on standard error, a bar on a terminal and one line a minute elsewhere; silent where not
    shown."""

    def __init__(self, total: int | None, shown: bool, verb: str = "measured", unit: str = "example") -> None:
        self.total, self.done, self.verb, self.unit = total, 0, verb, unit
        self._lines = shown and not sys.stderr.isatty()
        self._said = self._began = time.monotonic()
        self._bar = tqdm(total=total, unit=unit, leave=False, disable=not shown or self._lines, file=sys.stderr)

    def advance(self, count: int) -> None:
        """So many more are done."""
        self.done += count
        self._bar.update(count)
        now = time.monotonic()
        if self._lines and now - self._said >= EVERY:
            self._said = now
            of = "" if self.total is None else f" of {self.total}"
            print(f"{self.verb} {self.done}{of} {self.unit}s in {now - self._began:.0f} s", file=sys.stderr, flush=True)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._bar.close()


def printable(text: str) -> str:
    """One line that cannot steer a terminal, whatever file it quotes: white space is a space, the rest is spelled out."""
    return "".join(c if c.isprintable() else " " if c.isspace() else c.encode("unicode_escape").decode() for c in text)
