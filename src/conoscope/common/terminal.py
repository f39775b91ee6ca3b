"""What a terminal is shown: progress, and text that cannot steer it. Whatever conoscope prints passes through `say`."""

import argparse
import sys
import time
from types import TracebackType
from typing import NoReturn, Self

from conoscope.common.errors import shortened

EVERY = 60.0


class Progress:
    """Counts examples, or another unit, on standard error, a bar on a terminal and one line a minute elsewhere; silent where not
    shown."""

    def __init__(self, total: int | None, shown: bool, verb: str = "measured", unit: str = "example") -> None:
        from tqdm import tqdm

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
            say(f"{self.verb} {self.done}{of} {self.unit}s in {now - self._began:.0f} s", error=True)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._bar.close()


def printable(text: str) -> str:
    """One line that cannot steer a terminal, whatever file it quotes: white space is a space, the rest is spelled out."""
    return "".join(c if c.isprintable() else " " if c.isspace() else c.encode("unicode_escape").decode() for c in text)


def say(text: object, error: bool = False) -> None:
    """Print some lines on standard output, or on standard error; what could steer the terminal, or what it cannot show, is
    spelled out."""
    stream = sys.stderr if error else sys.stdout
    lines = "\n".join(map(printable, str(text).split("\n")))
    encoding = getattr(stream, "encoding", None) or "utf-8"
    print(lines.encode(encoding, "backslashreplace").decode(encoding), file=stream, flush=error)


def complain(message: object) -> None:
    """Print one line on standard error that begins with our name; long user text in it is cut."""
    say(f"conoscope: {printable(shortened(str(message)))}", error=True)


class Parser(argparse.ArgumentParser):
    """An argument parser that repeats what it was given as `say` does, and long text cut."""

    def error(self, message: str) -> NoReturn:
        """Print the usage and what is wrong; exit with 2."""
        super().error(printable(shortened(message)))
