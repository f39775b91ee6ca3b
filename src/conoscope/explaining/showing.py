"""painted(): an explanation for a terminal: a line for each word, a column for each map, colours by score, and the answer."""

from collections.abc import Sequence

import numpy as np
from jaxtyping import Float

from conoscope.common.markup import cut
from conoscope.common.terminal import Painted, printable
from conoscope.explaining.records import Explanation

STRONG = (0.15, 0.4, 0.7)
"""From which share of a map's largest score a word has a pale, a middle and a strong colour."""
NARROWEST = 7
CLASSES = 5
"""How many classes are shown with their probability."""


def painted(explanation: Explanation) -> Painted:
    """The words with a score of each map, coloured for (green) and against (red), and the label with its probability."""
    words = [cut(printable(word)) for word in explanation.example.words]
    widths = [max(len(name), NARROWEST) for name in explanation.maps]
    left = max(map(len, words), default=0)
    head = "  ".join((" " * left, *(name.rjust(width) for name, width in zip(explanation.maps, widths, strict=True))))
    styles = [_styles(scores) for scores in explanation.maps.values()]
    parts = [(head, "")]
    for place, word in enumerate(words):
        parts += [("\n", ""), (word, styles[0][place] if styles else ""), (" " * (left - len(word)), "")]
        for scores, style, width in zip(explanation.maps.values(), styles, widths, strict=True):
            cell = "-" if np.isnan(scores[place]) else f"{scores[place]:.4f}"
            parts += [(" " * (2 + width - len(cell)), ""), (cell, style[place])]
    return Painted((*parts, *_answer(explanation)))


def _styles(scores: Float[np.ndarray, " w"]) -> Sequence[str]:
    """A style for each word: by its share of the largest score, for or against."""
    largest = np.nanmax(np.abs(scores)) if np.isfinite(scores).any() else 0.0
    if not largest:
        return [""] * len(scores)
    levels = [sum(abs(score) / largest >= bound for bound in STRONG) for score in scores]
    return [f"{'for' if score > 0 else 'against'}{level}" if level else "" for score, level in zip(scores, levels, strict=True)]


def _answer(explanation: Explanation) -> Sequence[tuple[str, str]]:
    """The predicted label with its probability, and those of the next likely."""
    if explanation.predicted is None:
        return ()
    found = explanation.probabilities
    others = sorted((label for label in found if label != explanation.predicted), key=lambda label: -found[label])
    shown = [f"{cut(printable(label))} {found[label]:.3f}" for label in others[: CLASSES - 1]]
    more = [f"{len(others) - len(shown)} more"] if len(others) > len(shown) else []
    probability = f" {found[explanation.predicted]:.3f}" if found else ""
    beside = f" ({', '.join((*shown, *more))})" if shown else ""
    return (("\npredicted: ", ""), (cut(printable(explanation.predicted)), "bold"), (f"{probability}{beside}", ""))
