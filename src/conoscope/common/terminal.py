"""Terminal output: lines, JSON, colour and progress. Everything conoscope prints passes through here, without control characters.

Results go to standard output; notes, errors and progress go to standard error.
"""

import json
import os
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from types import TracebackType
from typing import Any, Self, TextIO

from conoscope.common.errors import shortened

EVERY = 30.0
"""Seconds between two lines of progress where standard error is no terminal."""
TICK = 0.5
"""Seconds between two updates of progress on a terminal."""
COLOURS = {
    "red": "31", "green": "32", "bold": "1", "faint": "2",
    "for1": "48;5;194;30", "for2": "48;5;157;30", "for3": "48;5;114;30",
    "against1": "48;5;224;30", "against2": "48;5;217;30", "against3": "48;5;210;30",
}  # fmt: skip
"""The escape codes of the styles of `Painted`; `for` and `against` are backgrounds, pale to strong."""


@dataclass
class _Screen:
    """What is printed, and what the terminal shows for the moment.

    `quiet`: no notes, no progress. `data`: standard output is for JSON alone. `label`, `since`: what is being done, and since
    when. `last`: when something was last printed.
    """

    quiet: bool = False
    data: bool = False
    label: str = ""
    since: float = 0.0
    last: float = 0.0
    drawn: bool = False
    bars: "list[Progress]" = field(default_factory=list)


_screen = _Screen()
_lock = threading.RLock()


@contextmanager
def speaking(quiet: bool = False, data: bool = False) -> Iterator[None]:
    """Context manager that sets what is printed: no notes if `quiet`; nothing but JSON on standard output if `data`."""
    before = replace(_screen)
    _screen.quiet, _screen.data = quiet, data
    try:
        yield
    finally:
        _screen.quiet, _screen.data = before.quiet, before.data


def printable(text: str) -> str:
    """The text as one safe line: white space becomes spaces, and control characters are escaped."""
    return "".join(c if c.isprintable() else " " if c.isspace() else c.encode("unicode_escape").decode() for c in text)


@dataclass(frozen=True)
class Painted:
    """A text of parts, each with a style of COLOURS or none; colours are printed on terminals alone."""

    parts: tuple[tuple[str, str], ...]

    def __str__(self) -> str:
        return "".join(text for text, _ in self.parts)


def say(text: object, error: bool = False) -> None:
    """Print lines on standard output, or on standard error; control characters, and those that the encoding lacks, are
    escaped."""
    error = error or _screen.data
    if not (error and _screen.quiet):
        _say(text, sys.stderr if error else sys.stdout)


def answer(value: Any) -> None:
    """Print a value as JSON on standard output: what a command prints with --json."""
    _say(json.dumps(value, indent=1, allow_nan=False), sys.stdout)


def complain(message: object, always: bool = False) -> None:
    """Print one line on standard error that begins with "conoscope:"; long user text in it is cut. `always`: even if quiet."""
    if always or not _screen.quiet:
        _say(f"conoscope: {printable(shortened(str(message)))}", sys.stderr)


def _say(text: object, stream: TextIO) -> None:
    parts = text.parts if isinstance(text, Painted) and _has_colours(stream) else ((str(text), ""),)
    safe = ("\n".join(map(printable, part.split("\n"))) for part, _ in parts)
    with _lock:
        _clear()
        _write("".join(_painted(part, style) for part, (_, style) in zip(safe, parts, strict=True)), stream)
        _screen.last = time.monotonic()
        for progress in _screen.bars:
            progress.bar.refresh()


def _write(text: str, stream: TextIO, end: str = "\n") -> None:
    encoding = getattr(stream, "encoding", None) or "utf-8"
    print(text.encode(encoding, "backslashreplace").decode(encoding), file=stream, end=end, flush=stream is sys.stderr)


def _has_colours(stream: TextIO) -> bool:
    """Whether colours are printed: on a terminal that has them, unless NO_COLOR is set."""
    return stream.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"


def _painted(text: str, style: str) -> str:
    return f"\x1b[{COLOURS[style]}m{text}\x1b[0m" if style else text


class Progress:
    """Progress on standard error, in examples or another unit: a bar on a terminal, a line every 30 seconds elsewhere; silent
    unless `shown`."""

    def __init__(self, total: int | None, shown: bool, verb: str = "measured", unit: str = "example") -> None:
        from tqdm import tqdm

        self.total, self.done, self.verb, self.unit = total, 0, verb, unit
        self._shown, self._timed, self._tokens = shown and not _screen.quiet, 0, 0
        self._lines = self._shown and not sys.stderr.isatty()
        self._last_line = self._start = time.monotonic()
        self._note = ""
        self.bar = tqdm(total=total, desc=verb, unit=unit, leave=False, disable=not self._shown or self._lines, file=sys.stderr)

    def advance(self, count: int, tokens: int = 0, note: str = "") -> None:
        """Add `count`, of so many tokens, to what is done, and show it with a note; what has no tokens was done before."""
        self.done += count
        self._timed += count if tokens else 0
        self._tokens += tokens
        self._note = note
        with _lock:
            if note:
                # The note says how long it takes, so that the bar does not.
                self.bar.bar_format = "{percentage:3.0f}%|{bar}| {n_fmt} of {total_fmt} in {elapsed}{postfix}"
                self.bar.set_postfix_str(note, refresh=False)
            self.bar.update(count)
        if self._lines and time.monotonic() - max(self._last_line, _screen.last) >= EVERY:
            self._last_line = time.monotonic()
            say(self.so_far(), error=True)

    def so_far(self) -> str:
        """What is done, of how much, in how long, and the last note."""
        of = "" if self.total is None else f" of {self.total}"
        note = f", {self._note}" if self._note else ""
        return f"{self.verb} {self.done}{of} {self.unit}s in {time.monotonic() - self._start:.0f} s{note}"

    def __enter__(self) -> Self:
        with _lock:
            _clear()
            _screen.bars += [self] if self._shown else []
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        with _lock:
            _screen.bars[:] = [bar for bar in _screen.bars if bar is not self]
            self.bar.close()
        if self._shown and kind is None and self._tokens:
            say(self._speed(time.monotonic() - self._start), error=True)

    def _speed(self, seconds: float) -> str:
        texts = self._timed / seconds
        what = f"{self._timed:,} {self.unit}{'' if self._timed == 1 else 's'} of {self._tokens:,} tokens"
        by_second = f"{texts:,.{0 if texts >= 10 else 1}f} {self.unit}s and {self._tokens / seconds:,.0f} tokens a second"
        return f"{self.verb} {what} in {seconds:.{1 if seconds >= 1 else 3}f} s: {by_second}"


def doing(label: str) -> None:
    """Set what is being done now, such as "loading runs/pure"; an Activity shows it, and nothing where it is empty."""
    with _lock:
        _screen.label, _screen.since = label[:70], time.monotonic()


class Activity:
    """Context manager that shows what is being done (`doing`): from the first second on a terminal, every 30 seconds elsewhere;
    silent unless `shown`. A thread shows it, so that nothing else has to wait or to be asked."""

    def __init__(self, label: str, shown: bool = True) -> None:
        self._label, self._shown = label, shown
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._beat, daemon=True)

    def _beat(self) -> None:
        while not self._over.wait(min(TICK, EVERY / 2)):
            with _lock:
                _show()

    def __enter__(self) -> Self:
        doing(self._label)
        if self._shown:
            self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        if self._shown:
            self._thread.join()
        with _lock:
            _clear()


def _show() -> None:
    """Show what is being done: on a terminal at once, elsewhere if nothing was printed for long."""
    now, bar = time.monotonic(), _screen.bars[-1] if _screen.bars else None
    if bar is None and not _screen.label:
        return
    if not sys.stderr.isatty():
        if now - max(_screen.last, _screen.since) >= EVERY:
            say(f"{_screen.label}, {now - _screen.since:.0f} s so far" if bar is None else bar.so_far(), error=True)
    elif bar is not None:
        bar.bar.refresh()
    else:
        _write(f"\r\x1b[K{printable(_screen.label)} … {now - _screen.since:.0f} s", sys.stderr, end="")
        _screen.drawn = True


def _clear() -> None:
    """Take away what the terminal shows for the moment."""
    for progress in _screen.bars:
        progress.bar.clear()
    if _screen.drawn:
        _write("\r\x1b[K", sys.stderr, end="")
    _screen.drawn = False
