"""What tests of commands share."""

import pytest

from conoscope.cli import main


def refusal(capsys: pytest.CaptureFixture[str], *arguments: object) -> str:
    """The one line that a refused command prints."""
    assert main([str(argument) for argument in arguments]) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.startswith("conoscope: ")
    assert captured.err.count("\n") == 1
    return captured.err
