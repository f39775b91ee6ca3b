"""The catalogue of measures. Importing it registers every measure; `conoscope list measures` shows them."""

from conoscope.measures import (  # noqa: F401  registers them
    attention,
    capacity,
    class_cones,
    class_maps,
    cones,
    directionality,
    gates,
    kinds,
    mixing,
    norms,
    spectrum,
    stream,
    words,
)
from conoscope.measures.base import CATALOGUE, Measure, Part, Reading, Request, Table, describe, reads, request

__all__ = ["CATALOGUE", "Measure", "Part", "Reading", "Request", "Table", "describe", "reads", "request"]
