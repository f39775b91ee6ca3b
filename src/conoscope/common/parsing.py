"""Parser: the argument parser of the command line; its errors are one line that says what to type."""

import argparse
import difflib
import re
from typing import Any, NoReturn

from conoscope.common.terminal import complain


class Parser(argparse.ArgumentParser):
    """Argument parser that takes options anywhere between arguments; its errors escape control characters and cut long text."""

    _inside = False

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> Any:
        """As argparse, but options may stand between the arguments, as in `compare A --device cpu B CORPUS`."""
        if self._inside or self._subparsers is not None:
            return super().parse_known_args(args, namespace)
        self._inside = True
        try:
            found, extras = self.parse_known_intermixed_args(args, namespace)
        finally:
            self._inside = False
        if extras:
            self.error(f"unrecognized arguments: {' '.join(extras)}")
        return found, extras

    def error(self, message: str) -> NoReturn:
        """Print the error as one line, with the nearest known name; exit with 2."""
        complain(f"{message}{self._nearest(message)}; see {self.prog} --help", always=True)
        raise SystemExit(2)

    def _nearest(self, message: str) -> str:
        """The option or choice that was perhaps meant, as a question."""
        wrong = re.search(r"unrecognized arguments: (\S+)|invalid choice: '([^']*)'", message)
        if wrong is None:
            return ""
        choices = [str(choice) for action in self._actions if action.choices for choice in action.choices]
        known = [name for name in self._option_string_actions if name.startswith("--")] if wrong[1] else choices
        near = difflib.get_close_matches((wrong[1] or wrong[2]).partition("=")[0][:100], known, 1)
        return f"; did you mean {near[0]}?" if near else ""


class Help(argparse.ArgumentDefaultsHelpFormatter):
    """Help that shows a default where there is one to know, and leaves the lines of examples as they are."""

    def _get_help_string(self, action: argparse.Action) -> str:
        said, default = action.help or "", action.default
        shown = (
            isinstance(default, str | int | float) and not isinstance(default, bool) and default not in ("", argparse.SUPPRESS)
        )
        return f"{said} (default: {default})" if shown and "default" not in said else said

    def _fill_text(self, text: str, width: int, indent: str) -> str:
        if "\n" not in text:
            return super()._fill_text(text, width, indent)
        return "\n".join(f"{indent}{line}" for line in text.splitlines())
