"""Explanations as HTML, for notebooks: the words of a text, coloured by their scores."""

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
from jaxtyping import Float

from conoscope.common.errors import OutputError
from conoscope.common.markup import Html, joined, quoted, tag
from conoscope.common.writing import write_text

FOR, AGAINST = (230, 120, 30), (60, 120, 200)
"""The colours, as red, green and blue, of words that speak for the predicted class and against it."""
STRONGEST = 0.75
"""The opacity of the colour behind the word of the largest score: text stays readable on it, in light and in dark."""
LONGEST = 200
"""Length in characters at which a word is cut."""


def coloured_words(
    words: Sequence[str], maps: Mapping[str, Float[np.ndarray, " w"]], predicted: str | None, probabilities: Mapping[str, float]
) -> Html:
    """The words once for each map, each with its score as the colour behind it and as its title, and what the model predicts."""
    answer = ", ".join(f"{label} {probability:.3f}" for label, probability in probabilities.items()) or (predicted or "")
    head = [tag("p", "predicted: ", tag("b", quoted(predicted)), f" ({answer})" if probabilities else "")] if predicted else []
    rows = [
        tag("p", tag("code", quoted(name)), " ", *(part for word in _words(words, scores) for part in (word, " ")))
        for name, scores in maps.items()
    ]
    return joined([tag("div", *head, *rows)])


def write_page(coloured: str, path: str | Path) -> Path:
    """Write coloured words as a page of their own."""
    target, head = Path(path), '<meta charset="utf-8"><meta name="color-scheme" content="light dark"><title>Explanation</title>'
    try:
        write_text(target, f'<!DOCTYPE html>\n<html lang="en">{head}\n<body>{coloured}</body></html>\n')
    except OSError as error:
        raise OutputError(f"cannot write {target}: {error.strerror or error}; give another file") from error
    return target


def _words(words: Sequence[str], scores: Float[np.ndarray, " w"]) -> list[Html]:
    known = np.abs(scores[np.isfinite(scores)])
    largest = float(known.max()) if len(known) and known.max() > 0 else 1.0
    return [_word(word, float(score), largest) for word, score in zip(words, scores, strict=True)]


def _word(word: str, score: float, largest: float) -> Html:
    shown = quoted(word, LONGEST)
    if not np.isfinite(score):
        return tag("span", shown, title="no score: the word was cut off", style="opacity: 0.5")
    red, green, blue = FOR if score >= 0 else AGAINST
    opacity = STRONGEST * abs(score) / largest
    style = f"background: rgba({red}, {green}, {blue}, {opacity:.3f}); border-radius: 3px; padding: 0 2px"
    return tag("span", shown, title=f"{score:.4f}", style=style)
