"""The scale 1/√d of the course: what it does to attention and to its gradient, on random queries and keys of many widths."""

from collections.abc import Iterator
from typing import TYPE_CHECKING

from conoscope.studies.base import Claim, Condition, Row, Study

if TYPE_CHECKING:
    import pandas as pd

    from conoscope.studies.made import Made

WIDTHS = (4, 16, 64, 256, 1024)
SCALED, UNSCALED = "scaled", "unscaled"
QUERIES, KEYS = 256, 64
GRADIENTS = ("gradient", "gradient.query")
ALIKE = 0.8
"""Gradients whose ratio is above this are of the same magnitude."""


def _read(made: "Made") -> Iterator[Row]:
    from conoscope.studies.published.course_scale_reading import read

    return read(made.seed)


def _steps(rows: "pd.DataFrame", quantity: str, scale: str) -> "pd.DataFrame":
    """One row per width but the narrowest, with the value at that width as `value` and at the next narrower one as `before`."""
    from conoscope.studies.contrasts import where

    chosen = where(rows, quantity=quantity, scale=scale).sort_values("width")
    return chosen.assign(before=chosen.groupby("seed")["value"].shift()).dropna(subset="before")


def _alike(rows: "pd.DataFrame") -> "pd.DataFrame":
    """With the scale, the smaller gradient of the narrowest and each other width, divided by the larger one."""
    import pandas as pd

    from conoscope.studies.contrasts import cases, where

    found = []
    for quantity in GRADIENTS:
        scaled = where(rows, quantity=quantity, scale=SCALED)
        narrow = scaled[scaled["width"] == WIDTHS[0]].set_index("seed")["value"]
        others = scaled[scaled["width"] != WIDTHS[0]]
        ratio = others["value"] / others["seed"].map(narrow)
        found.append(others.assign(value=ratio.where(ratio < 1, 1 / ratio)))
    return cases(pd.concat(found), ("quantity", "width"))


def _vanishing(rows: "pd.DataFrame") -> "pd.DataFrame":
    """Without the scale, 1 minus the gradient at each width divided by that at the next narrower one."""
    from conoscope.studies.contrasts import cases

    steps = _steps(rows, "gradient", UNSCALED)
    return cases(steps.assign(value=1 - steps["value"] / steps["before"]), ("width",))


def _sharpening(rows: "pd.DataFrame") -> "pd.DataFrame":
    """Without the scale, the entropy at each width below that at the next narrower one."""
    from conoscope.studies.contrasts import cases

    steps = _steps(rows, "entropy", UNSCALED)
    return cases(steps.assign(value=steps["before"] - steps["value"]), ("width",))


STUDY = Study(
    name="course-scale",
    title="What the scale 1/√d does to the gradient of attention",
    source="AMAL, practical 9, introduction: self-attention",
    conditions=(Condition({"vectors": "random"}, "bistro"),),
    read=_read,
    claims=(
        Claim(
            "alike",
            "With the scale, gradients are of one magnitude at all widths: the smaller of two, divided by the larger one. "
            f"The bound of {ALIKE} is ours.",
            _alike,
            ALIKE,
            within=(0, 1),
        ),
        Claim("vanishing", "Without the scale, the gradient of softmax is smaller the wider the vectors.", _vanishing),
        Claim(
            "sharpening",
            "Without the scale, attention is sharper the wider the vectors: its entropy falls.",
            _sharpening,
            within=(-1, 1),
        ),
    ),
    differs=(
        "The course states it without a figure, and does not say of which gradient: we take two, by the scores (`gradient`, the "
        "derivative of softmax) and by the query (`gradient.query`), each as the Frobenius norm of all derivatives, averaged "
        "over queries.",
        f"Nothing is trained and no text is read: a seed draws {QUERIES} queries and {KEYS} keys at each width, with independent "
        "normal coordinates of variance 1, so that a score has variance d without the scale and 1 with it.",
        "That the gradient vanishes without the scale is the other side of the statement, and is not in the course.",
    ),
    seeds=10,
    gate=None,
    meaning=(
        "With the scale the gradient is the same at every width, within 2 % from 4 to 1,024 by the scores, as the course says. "
        "Without it attention is ever sharper, and the gradient by the scores falls from width 64 on, to a quarter of its "
        "size at 1,024; from 4 to 16 it still rises. By the query it grows, since each score counts for more."
    ),
)
