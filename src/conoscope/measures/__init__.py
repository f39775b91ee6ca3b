"""The catalogue of measures. Importing it enters every measure; `conoscope list measures` shows them."""

from conoscope.measures import attention, capacity, classes, cones, directionality, nearest, norms, spectrum, stream, words  # noqa: F401  enters them
from conoscope.measures.base import CATALOGUE, Measure, Part, Reading, Request, Table, describe, reads, request

__all__ = ["CATALOGUE", "Measure", "Part", "Reading", "Request", "Table", "describe", "reads", "request"]
