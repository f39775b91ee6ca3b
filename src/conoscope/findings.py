"""Findings: what is worth knowing of some tables, in plain sentences."""

from dataclasses import dataclass

from conoscope.figures import Tables


@dataclass(frozen=True)
class Finding:
    """One plain sentence with its number, and the name of the figure that shows it, or nothing."""

    text: str
    figure: str


def find(tables: Tables) -> list[Finding]:
    """Five findings at most, the most telling first."""
    return []
