"""A run that dies at any change of a file is done again by the same command, with the same digits."""

from collections.abc import Callable, Iterator

import pytest

from killed import COMMANDS, Killed

pytestmark = pytest.mark.forks
FEW = 4
"""How many deaths of each command `make test` tries."""


def tried(killed: Killed, chosen: Callable[[int], Iterator[int] | range]) -> list[str]:
    log = killed.changes()
    failed = []
    for number in chosen(len(log)):
        if (wrong := killed.die_at(number)) is not None:
            failed.append(f"{number} of {len(log)}, {log[number - 1]}: {wrong}")
    return failed


@pytest.mark.parametrize("killed", COMMANDS, indirect=True)
def test_the_same_command_after_some_deaths_gives_the_same_digits(killed: Killed) -> None:
    assert not tried(killed, lambda count: range(3, count + 1, max(1, count // FEW)))


@pytest.mark.campaign
@pytest.mark.parametrize("killed", COMMANDS, indirect=True)
def test_the_same_command_after_any_death_gives_the_same_digits(killed: Killed) -> None:
    assert not tried(killed, lambda count: range(1, count + 1))
