"""Words: a text with the background of each word coloured by its score, one map under another."""

import math
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from conoscope.figures.base import DIGITS, Chart, Tables, figure, name_of
from conoscope.figures.marks import columns_of, cut
from conoscope.figures.theme import DIVERGING, GREY, INK
from conoscope.figures.typesetting import LINE, NAME, NARROW, PART, Page

if TYPE_CHECKING:
    import pandas as pd

HUMAN, GRAMMAR = "human", "grammar"
"""The maps of what people marked, and of what the grammar of a generated corpus did."""
MARKERS = {HUMAN: "marked by people", GRAMMAR: "marked by the corpus's grammar"}
"""Maps that are no scores but marks, and how they are called beside the words."""
EXAMPLES, CELLS = 6, 500
"""Texts that are drawn at most, and words of all their maps: what a page bears."""
LONGEST = 120
"""Words of a text that are drawn."""
MARKED, WHITE = "#8fd0bb", "#ffffff"
"""Behind what is marked, the palette's green made light enough for dark text, and behind what is not."""
LIGHT = {True: ([-1, 1], [0.22, 0.78]), False: ([0, 1], [0.5, 0.78])}
"""With signs and without: the domain of the scores, and the part of the colours that is light enough for dark text."""
MARKS = {
    "score": "The darker a word's orange, the higher its score, as a part of the largest of that map in that text.",
    "against": "Blue words speak against the predicted class.",
    HUMAN: "Green is what people marked.",
    GRAMMAR: "Green is what decides the class by the grammar that the corpus was made with.",
    "unscored": "Words in faint letters have no score.",
}
"""A sentence for each mark of coloured words."""


def _narrow(tables: Tables) -> Chart | None:
    """The same for narrow pages: shorter lines."""
    return coloured(tables, NARROW)


@figure(
    "explanations",
    question="words",
    narrow=_narrow,
    marks=MARKS,
)
def words(tables: Tables) -> Chart | None:
    """Words of the first texts, coloured by their scores.

    Each text is there once for each map. Look along one text: maps that agree colour the same words.
    """
    return coloured(tables)


def coloured(tables: Tables, columns: int | None = None) -> Chart | None:
    """The texts of the table `explanations`, in so many columns with the names beside them; in lines of their own length where
    none are given."""
    frame = _explanations(tables)
    gutter = min(NAME, 2 + max((columns_of(_called(name)) for name in frame["map"].unique()), default=0))
    page = Page(gutter, columns - gutter - 1 if columns else LINE)
    for texts in _examples(frame):
        maps = sum(text["map"].nunique() for _, text in texts)
        shown = min(LONGEST, max(1, CELLS // maps))
        if page.cells and len(page.cells) + sum((text["place"] < shown).sum() for _, text in texts) > CELLS:
            break
        for title, text in texts:
            page.head(title)
            for name in text["map"].unique():
                rows = text[text["map"] == name]
                page.text(_called(name), rows["word"][:shown], _scored(name, rows["value"]), max(0, len(rows) - shown))
    return _drawn(page) if page.cells else None


def _called(name: str) -> str:
    """What stands beside the words of a map."""
    return {HUMAN: "people", GRAMMAR: "the grammar"}.get(name, name)


def _explanations(tables: Tables) -> "pd.DataFrame":
    found = name_of(tables, "explanations")
    assert found is not None, "no explanations"
    frame = tables[found] if "run" in tables[found] else tables[found].assign(run="")
    return frame.drop_duplicates(["run", "example", "map", "place"])


def _examples(frame: "pd.DataFrame") -> Iterator[list[tuple[str, "pd.DataFrame"]]]:
    """The first examples: of each run that has it a title and the rows."""
    several = frame["run"].nunique() > 1
    for example in frame["example"].unique()[:EXAMPLES]:
        found = frame[frame["example"] == example].groupby("run", sort=False)
        yield [(_title(str(run) if several else "", text.iloc[0]), text) for run, text in found]


def _title(run: str, row: "pd.Series[Any]") -> str:
    import pandas as pd

    said = [f"{name} {cut(row[name], 16)}" for name in ("label", "predicted") if not pd.isna(row[name])]
    return PART.join([cut(row["example"], 32), *said, *([cut(run, 28)] if run else [])])


def _scored(name: str, values: "pd.Series[float]") -> list[dict[str, Any]]:
    """Each score, and what part it is of the largest of the text; none where a word has no finite score."""
    known = [float(f"{value:.{DIGITS}g}") if math.isfinite(value) else None for value in values.astype(float)]
    marker = name if name in MARKERS else ""
    largest = max((abs(value) for value in known if value is not None), default=0.0) or 1.0
    return [
        {"map": MARKERS.get(name) or cut(name, 40), "score": value, "part": round(float(value or 0) / largest, 3), "by": marker}
        for value in known
    ]


def _drawn(page: Page) -> Chart:
    import altair as alt

    signed = any(cell["part"] < 0 for cell in page.cells)
    markers = {cell["by"] for cell in page.cells}
    faint = any(cell["score"] is None for cell in page.cells)
    domain, extent = LIGHT[signed]
    cells = page.chart(page.cells).encode(tooltip=["word:N", "map:N", alt.Tooltip("score:Q", format=".4f")])
    scores = alt.Color("part:Q", title="score, as a part of the largest")
    scores = scores.scale(domain=domain, scheme=alt.SchemeParams(name=DIVERGING, extent=extent), nice=False)
    layers = [
        cells.transform_filter("datum.by === ''")
        .mark_rect(aria=False, style=["score", *(["against"] if signed else [])] if "" in markers else [])
        .encode(page.x, alt.X2("end"), scores.legend(**page.legend(domain))),
        cells.transform_filter("datum.by !== ''")
        .mark_rect(aria=False, style=sorted(markers - {""}))
        .encode(page.x, alt.X2("end"), color=alt.condition("datum.part > 0", alt.value(MARKED), alt.value(WHITE))),
        cells.transform_calculate(middle="(datum.x + datum.end) / 2")
        .mark_text(font="monospace", color=INK, aria=False, style=["unscored"] if faint else [])
        .encode(page.middle, text="word:N", opacity=alt.condition("datum.score === null", alt.value(0.5), alt.value(1))),
        *(
            page.chart(notes).mark_text(align="left", color=GREY, fontWeight=weight, aria=False).encode(page.x, text="text:N")
            for notes, weight in ((page.heads, "bold"), (page.notes, "normal"))
        ),
    ]
    return alt.layer(*layers).properties(**page.size)
