"""Command: a name, help, options, and the function that runs. Imports nothing heavy."""

import argparse
from argparse import ArgumentParser, Namespace
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from conoscope.common.errors import MeasureError
from conoscope.common.parsing import Help

Unused = Iterator[tuple[tuple[str, ...], str]]
"""Options that would have no effect, with the reason: `("count", "width"), "for the figure sim, which shows tables"`."""


def never_unused(args: Namespace) -> Unused:
    """Yield nothing: every option of the command always has an effect."""
    yield from ()


def never_resumes(args: Namespace) -> bool:
    """Return False: the command begins anew each time."""
    return False


def left_in(folder: Path, *names: str) -> bool:
    """Return whether a file of one of these names is anywhere in a folder."""
    return any(True for name in names for _ in folder.rglob(name))


@dataclass(frozen=True)
class Command:
    """One verb of the command line. `options` adds arguments to a parser; `run` takes the parsed arguments, and imports what it
    needs inside the function, so that help is printed at once."""

    name: str
    help: str
    example: str
    """One command, or several on lines of their own."""
    options: Callable[[ArgumentParser], None]
    run: Callable[[Namespace], None]
    unused: Callable[[Namespace], Unused] = never_unused
    loads_models: bool = False
    """Whether the command loads a model with transformers, whose messages are then silenced first."""
    as_json: bool = False
    """Whether the command prints a table, and so takes --json."""
    resumes: Callable[[Namespace], bool] = never_resumes
    """Whether the same command, given again after an interruption, goes on where it was: whether it left something."""

    def add_to(self, commands: "argparse._SubParsersAction[Any]") -> None:
        """Add the command to the subparsers of the command line."""
        first, *more = self.example.split("\n")
        lines = "\n".join((f"example: {first}", *(f"         {line}" for line in more)))
        parser = commands.add_parser(
            self.name, help=self.help, description=self.help[0].upper() + self.help[1:] + ".", epilog=lines, formatter_class=Help
        )
        self.options(parser)
        printing = parser.add_argument_group("what is printed")
        if self.as_json:
            printing.add_argument("--json", action="store_true", help="print JSON on standard output, and nothing else there")
        printing.add_argument("--quiet", action="store_true", help="print no progress and no notes; errors are still printed")

    def refuse_unused(self, args: Namespace) -> None:
        """Raise MeasureError if an option was given that has no effect together with the others."""
        parser = ArgumentParser(add_help=False)
        self.options(parser)
        for options, why in self.unused(args):
            for option in options:
                if getattr(args, option) != parser.get_default(option):
                    raise MeasureError(f"--{option.replace('_', '-')} does nothing {why}; leave it out")
