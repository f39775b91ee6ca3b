"""Figures: tables in, an Altair chart out, one function a figure.

>>> from conoscope.figures import FIGURES, save
>>> save(FIGURES["sim"].draw(result.tables), "sim.pdf")
"""

from conoscope.figures import (
    ablation,
    attention_maps,
    attribution,
    capacity,
    causes,
    class_cosines,
    class_plane,
    classes,
    curves,
    evaluation,
    gates,
    heads,
    lengths,
    mixing,
    nearest,
    patching,
    shown_heads,
    steering,
    stream,
    studies,
    sweep,
    words,
)
from conoscope.figures.base import FIGURES, Figure, Tables
from conoscope.figures.files import FORMATS, save, spec, svg, svg_of
from conoscope.figures.positions import positions

ORDER = (
    "sim", "sim-heads", "cone-index", "effective-rank", "word-cones",
    "class-cones", "nearest-cone", "class-plane", "class-plane-means", "class-cosines", "class-cosines-by-layer", "class-path",
    "capacity",
    "gates", "attention-maps", "entropy", "entropy-heads", "looks", "directionality", "class-maps", "norm-histograms",
    "weights-and-norms", "weight-norm-scatter", "cancel-out", "mixing", "mixing-by-kind", "frequency",
    "stream", "layer-turns", "kurtosis",
    "ablation", "head-effects", "patch", "patch-tokens", "steering", "attribution", "attribution-layers", "attribution-words",
    "words", "plausibility", "faithfulness",
    "penalty-sweep",
    "narrow-cones", "heads-as-gates", "lengths-in-a-head", "published-and-ours", "claims",
)  # fmt: skip
"""The figures as one reads them, question by question."""
# Modules enter their figures as they are imported, by the alphabet.
FIGURES.update({name: FIGURES.pop(name) for name in ORDER})

__all__ = [
    "FIGURES",
    "FORMATS",
    "ORDER",
    "Figure",
    "Tables",
    "ablation",
    "attention_maps",
    "attribution",
    "capacity",
    "causes",
    "class_cosines",
    "class_plane",
    "classes",
    "curves",
    "evaluation",
    "gates",
    "heads",
    "lengths",
    "mixing",
    "nearest",
    "patching",
    "positions",
    "save",
    "shown_heads",
    "spec",
    "steering",
    "stream",
    "studies",
    "svg",
    "svg_of",
    "sweep",
    "words",
]
