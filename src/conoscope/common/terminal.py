"""Terminal output: progress, and text without control characters. Everything conoscope prints passes through `say`."""

import argparse
import sys
import time
from types import TracebackType
from typing import NoReturn, Self

from conoscope.common.errors import shortened

EVERY = 60.0


class Progress:
    """Progress on standard error, in examples or another unit: a bar on a terminal, one line a minute elsewhere; silent unless
    `shown`."""

    def __init__(self, total: int | None, shown: bool, verb: str = "measured", unit: str = "example") -> None:
        from tqdm import tqdm

        self.total, self.done, self.verb, self.unit = total, 0, verb, unit
        self._shown, self._timed, self._tokens = shown, 0, 0
        self._lines = shown and not sys.stderr.isatty()
        self._last_line = self._start = time.monotonic()
        self._bar = tqdm(total=total, unit=unit, leave=False, disable=not shown or self._lines, file=sys.stderr)

    def advance(self, count: int, tokens: int = 0, note: str = "") -> None:
        """Add `count`, of so many tokens, to what is done, and show it with a note; what has no tokens was done before."""
        self.done += count
        self._timed += count if tokens else 0
        self._tokens += tokens
        if note:
            # The note says how long it takes, so that the bar does not.
            self._bar.bar_format = "{percentage:3.0f}%|{bar}| {n_fmt} of {total_fmt} in {elapsed}{postfix}"
            self._bar.set_postfix_str(note, refresh=False)
        self._bar.update(count)
        now = time.monotonic()
        if self._lines and now - self._last_line >= EVERY:
            self._last_line = now
            of = "" if self.total is None else f" of {self.total}"
            say(f"{self.verb} {self.done}{of} {self.unit}s in {now - self._start:.0f} s{', ' if note else ''}{note}", error=True)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._bar.close()
        if self._shown and kind is None and self._tokens:
            say(self._speed(time.monotonic() - self._start), error=True)

    def _speed(self, seconds: float) -> str:
        texts = self._timed / seconds
        what = f"{self._timed:,} {self.unit}{'' if self._timed == 1 else 's'} of {self._tokens:,} tokens"
        by_second = f"{texts:,.{0 if texts >= 10 else 1}f} {self.unit}s and {self._tokens / seconds:,.0f} tokens a second"
        return f"{self.verb} {what} in {seconds:.{1 if seconds >= 1 else 3}f} s: {by_second}"


def printable(text: str) -> str:
    """The text as one safe line: white space becomes spaces, and control characters are escaped."""
    return "".join(c if c.isprintable() else " " if c.isspace() else c.encode("unicode_escape").decode() for c in text)


def say(text: object, error: bool = False) -> None:
    """Print lines on standard output, or on standard error; control characters, and those that the encoding lacks, are
    escaped."""
    stream = sys.stderr if error else sys.stdout
    lines = "\n".join(map(printable, str(text).split("\n")))
    encoding = getattr(stream, "encoding", None) or "utf-8"
    print(lines.encode(encoding, "backslashreplace").decode(encoding), file=stream, flush=error)


def complain(message: object) -> None:
    """Print one line on standard error that begins with "conoscope:"; long user text in it is cut."""
    say(f"conoscope: {printable(shortened(str(message)))}", error=True)


class Parser(argparse.ArgumentParser):
    """Argument parser whose errors escape control characters and cut long text."""

    def error(self, message: str) -> NoReturn:
        """Print the usage and the error; exit with 2."""
        super().error(printable(shortened(message)))
