"""The command line: the same verbs as in Python, and no logic of its own. Each command is declared in `conoscope.commands`.

Nothing heavy is imported before a command runs, so that help is printed at once.
"""

import argparse
import io
import os
import sys
import traceback
from argparse import Namespace
from collections.abc import Sequence

from conoscope import __version__
from conoscope.commands import COMMANDS
from conoscope.commands.base import Command
from conoscope.common.errors import ConoscopeError
from conoscope.common.parsing import Parser
from conoscope.common.terminal import Activity, complain, say, speaking

EXIT_CODES = "exit codes: 0 done; 1 an error of conoscope itself; 2 an error of yours, in one line; 130 stopped by Ctrl-C"


def parser() -> argparse.ArgumentParser:
    """Return the parser of all commands and their options."""
    top = Parser(
        prog="conoscope",
        description="See the geometry of self-attention in transformer text classifiers.",
        epilog=f"start here: conoscope demo. {EXIT_CODES}",
    )
    top.add_argument("--version", action="version", version=f"conoscope {__version__}")
    subparsers = top.add_subparsers(dest="command", required=True, metavar="COMMAND")
    for command in COMMANDS.values():
        command.add_to(subparsers)
    return top


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code: 0; 1 for our error; 2 for the user's; 130 if it was interrupted."""
    _escape_unprintable()
    args = parser().parse_args(arguments)
    command = COMMANDS[args.command]
    with speaking(args.quiet, getattr(args, "json", False)):
        try:
            _run(command, args)
        except ConoscopeError as error:
            complain(error, always=True)
            return 2
        except KeyboardInterrupt:
            complain("stopped; the same command goes on from there" if command.resumes(args) else "stopped", always=True)
            return 130
        except BrokenPipeError:  # the reader of our output closed it, as `head` does
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        except Exception as error:
            say(traceback.format_exc().rstrip(), error=True)
            complain(f"this is an error of conoscope, not yours: {type(error).__name__}: {error}; please report it", always=True)
            return 1
    return 0


def _run(command: Command, args: Namespace) -> None:
    command.refuse_unused(args)
    with Activity("loading" if command.loads_models else "working", shown=not args.quiet):
        if command.loads_models:
            _silence_transformers()
        command.run(args)
    sys.stdout.flush()


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
