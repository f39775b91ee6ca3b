"""Statements: what the sources say, in our own words, each with the claims that test it or the reason why none can."""

from conoscope.studies.statements import bonino, course, fosse_abstract, fosse_slides, kobayashi
from conoscope.studies.statements.base import SOURCES, Pairs, Statement
from conoscope.studies.statements.beyond import BEYOND, OURS

STATEMENTS: tuple[Statement, ...] = tuple(
    statement for module in (fosse_abstract, fosse_slides, course, bonino, kobayashi) for statement in module.STATEMENTS
)
"""Every statement, in the order of the sources."""

__all__ = ["BEYOND", "OURS", "SOURCES", "STATEMENTS", "Pairs", "Statement"]
