"""Figures: tables in, an Altair chart out, one function a figure.

>>> from conoscope.figures import FIGURES, save
>>> save(FIGURES["sim"].draw(result.tables), "sim.pdf")
"""

from conoscope.figures import (
    attention_maps,
    capacity,
    class_cosines,
    class_plane,
    classes,
    curves,
    gates,
    heads,
    judged,
    lengths,
    mixing,
    stream,
    studies,
    sweep,
    words,
)
from conoscope.figures.base import FIGURES, QUESTIONS, Figure, Tables
from conoscope.figures.files import FORMATS, save, spec, svg
from conoscope.figures.positions import positions

__all__ = [
    "FIGURES",
    "FORMATS",
    "QUESTIONS",
    "Figure",
    "Tables",
    "attention_maps",
    "capacity",
    "class_cosines",
    "class_plane",
    "classes",
    "curves",
    "gates",
    "heads",
    "judged",
    "lengths",
    "mixing",
    "positions",
    "save",
    "spec",
    "stream",
    "studies",
    "svg",
    "sweep",
    "words",
]
