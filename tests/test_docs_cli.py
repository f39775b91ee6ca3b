"""The page on the command line is true: every command, its examples, JSON, exit codes."""

import re
import shlex
from pathlib import Path

import pytest

from conoscope.cli import EXIT_CODES, parser
from conoscope.commands import COMMANDS
from conoscope.commands.base import never_resumes

ROOT = Path(__file__).parents[1]
PAGE = (ROOT / "docs" / "command-line.md").read_text(encoding="utf-8")


def test_every_command_has_a_section_in_the_order_of_help() -> None:
    assert re.findall(r"^### (.*)$", PAGE, re.MULTILINE) == list(COMMANDS)


@pytest.mark.parametrize("name", COMMANDS)
def test_a_section_shows_the_examples_of_help(name: str) -> None:
    section = PAGE.split(f"\n### {name}\n")[1].split("\n##")[0]
    shown = re.findall(r"^\$ (.*)$", section, re.MULTILINE)
    assert shown == COMMANDS[name].example.split("\n")


def test_the_commands_on_the_page_parse() -> None:
    typed = re.findall(r"^\$ conoscope ([^<|\n]*)", PAGE, re.MULTILINE)
    typed += [line for line in re.findall(r"`conoscope ([a-z]+ [^`]*)`", PAGE) if " | " not in line and "COMMAND" not in line]
    assert len(typed) > 25
    for command in typed:
        parser().parse_args(shlex.split(command))


def test_the_page_names_every_command_with_json_and_every_exit_code() -> None:
    listed = PAGE.split("## JSON")[1].split(".\n", 1)[0].split("Missing")[0]
    assert re.findall(r"`([a-z]+)`", listed) == sorted(name for name, command in COMMANDS.items() if command.as_json)
    codes = re.findall(r"\b(\d+) ", EXIT_CODES)
    assert re.findall(r"^\| (\d+) \|", PAGE, re.MULTILINE) == codes == ["0", "1", "2", "130"]


def test_what_resumes_says_so() -> None:
    for name, command in COMMANDS.items():
        section = PAGE.split(f"\n### {name}\n")[1].split("\n##")[0]
        assert ("The same command again" in section) == (command.resumes is not never_resumes and name != "demo"), name
