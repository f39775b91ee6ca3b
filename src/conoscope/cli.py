"""The command line: the same verbs as in Python, and no logic of its own. Each command is declared in `conoscope.commands`.

Nothing heavy is imported before a command runs, so that help is printed at once.
"""

import argparse
import io
import os
import sys
from collections.abc import Sequence

from conoscope import __version__
from conoscope.commands import COMMANDS
from conoscope.common.errors import ConoscopeError
from conoscope.common.terminal import Parser, complain


def parser() -> argparse.ArgumentParser:
    """Return the parser of all commands and their options."""
    top = Parser(
        prog="conoscope",
        description="See the geometry of self-attention in transformer text classifiers.",
        epilog="start here: conoscope demo",
    )
    top.add_argument("--version", action="version", version=f"conoscope {__version__}")
    subparsers = top.add_subparsers(dest="command", required=True, metavar="COMMAND")
    for command in COMMANDS.values():
        command.add_to(subparsers)
    return top


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code: 0; 2 for a user error; 130 if it was interrupted."""
    _escape_unprintable()
    args = parser().parse_args(arguments)
    command = COMMANDS[args.command]
    try:
        command.refuse_unused(args)
        if command.loads_models:
            _silence_transformers()
        command.run(args)
        sys.stdout.flush()
    except ConoscopeError as error:
        complain(error)
        return 2
    except KeyboardInterrupt:
        complain("stopped")
        return 130
    except BrokenPipeError:  # the reader of our output closed it, as `head` does
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return 0


def _escape_unprintable() -> None:
    """Print characters that the terminal's encoding lacks as escapes, where Python would raise UnicodeEncodeError."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")


def _silence_transformers() -> None:
    """Switch off the progress bars and messages of transformers, which would appear between our lines."""
    from huggingface_hub.utils import logging as hub_logging
    from transformers.utils import logging

    hub_logging.set_verbosity(50)
    logging.set_verbosity(50)
    logging.disable_progress_bar()
