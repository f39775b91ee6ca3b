"""The command line: the same verbs as in Python, and no logic of its own. Each command is declared in `conoscope.commands`.

Nothing heavy is imported before a command runs, so that help is printed at once.
"""

import argparse
import errno
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

OF_THE_MACHINE = (
    *(errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EACCES, errno.EPERM, errno.EIO, errno.EFBIG, errno.EMFILE, errno.ENFILE),
    *(errno.ENOMEM, errno.EAGAIN, errno.ESTALE, errno.ENAMETOOLONG, errno.ELOOP),
)
"""The errors of disks and machines."""
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
            _print_nowhere()
        except OSError as error:
            if error.errno not in OF_THE_MACHINE:
                return _ours(error)
            complain(f"{_refused(error)}; make room or give another place, then the same command again", always=True)
            _print_nowhere()
            return 2
        except MemoryError:
            complain("not enough memory; try a smaller --batch-size or --limit, or a larger machine", always=True)
            return 2
        except Exception as error:
            return _ours(error)
    return 0


def _ours(error: Exception) -> int:
    say("".join(traceback.format_exception(error)).rstrip(), error=True)
    complain(f"this is an error of conoscope, not yours: {type(error).__name__}: {error}; please report it", always=True)
    return 1


def _refused(error: OSError) -> str:
    """What the machine refused, and where: without a file it was what we print."""
    where = "our output cannot be printed" if error.filename is None else f"{error.filename} cannot be read or written"
    return f"{where}: {error.strerror}"


def _print_nowhere() -> None:
    """Drop what is still to be printed, which Python would try once more when it ends."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


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
