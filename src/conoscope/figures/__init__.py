"""Figures: tables in, an Altair chart out, one function a figure.

>>> from conoscope.figures import FIGURES, save
>>> save(FIGURES["sim"].draw(result.tables), "sim.pdf")
"""

from conoscope.figures import capacity, curves, judged, mixing, sweep, words
from conoscope.figures.base import FIGURES, QUESTIONS, Figure, Tables
from conoscope.figures.files import FORMATS, save, spec, svg
from conoscope.figures.positions import positions

__all__ = [
    "FIGURES",
    "FORMATS",
    "QUESTIONS",
    "Figure",
    "Tables",
    "capacity",
    "curves",
    "judged",
    "mixing",
    "positions",
    "save",
    "spec",
    "svg",
    "sweep",
    "words",
]
