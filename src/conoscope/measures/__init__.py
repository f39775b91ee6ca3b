"""The catalogue of measures. Importing it enters every measure; `conoscope list measures` shows them."""

from conoscope.measures import attention, cones
from conoscope.measures.base import CATALOGUE, Measure, Part, Reading, Request, describe, reads, request

__all__ = ["CATALOGUE", "Measure", "Part", "Reading", "Request", "attention", "cones", "describe", "reads", "request"]
