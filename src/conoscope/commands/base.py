"""Command: a name, help, options, and the function that runs. Imports nothing heavy."""

import argparse
from argparse import ArgumentParser, Namespace
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from conoscope.common.errors import MeasureError

Unused = Iterator[tuple[tuple[str, ...], str]]
"""Options that would have no effect, with the reason: `("count", "width"), "for the figure sim, which shows tables"`."""


def never_unused(args: Namespace) -> Unused:
    """Yield nothing: every option of the command always has an effect."""
    yield from ()


@dataclass(frozen=True)
class Command:
    """One verb of the command line. `options` adds arguments to a parser; `run` takes the parsed arguments, and imports what it
    needs inside the function, so that help is printed at once."""

    name: str
    help: str
    example: str
    options: Callable[[ArgumentParser], None]
    run: Callable[[Namespace], None]
    unused: Callable[[Namespace], Unused] = never_unused
    loads_models: bool = False
    """Whether the command loads a model with transformers, whose messages are then silenced first."""

    def add_to(self, commands: "argparse._SubParsersAction[Any]") -> None:
        """Add the command to the subparsers of the command line."""
        parser = commands.add_parser(
            self.name, help=self.help, description=self.help[0].upper() + self.help[1:] + ".", epilog=f"example: {self.example}",
            formatter_class=argparse.ArgumentDefaultsHelpFormatter,
        )  # fmt: skip
        self.options(parser)

    def refuse_unused(self, args: Namespace) -> None:
        """Raise MeasureError if an option was given that has no effect together with the others."""
        parser = ArgumentParser(add_help=False)
        self.options(parser)
        for options, why in self.unused(args):
            for option in options:
                if getattr(args, option) != parser.get_default(option):
                    raise MeasureError(f"--{option.replace('_', '-')} does nothing {why}; leave it out")
