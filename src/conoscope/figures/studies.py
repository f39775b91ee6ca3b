"""Studies: published figures beside ours, and what became of each claim."""

from typing import TYPE_CHECKING, Any

from conoscope.figures.base import Chart, Tables, figure, runs_of, table_of
from conoscope.figures.marks import below, dashed, renamed, shown, told_apart
from conoscope.figures.theme import GREY

if TYPE_CHECKING:
    import pandas as pd

PANEL = 185
"""How wide a panel of published figures is: three stand beside each other."""
CASES = 300
"""How wide the intervals of a claim are."""
LONGEST, BESIDE = 70, 44
"""Columns of a name above a panel, and of a case beside its bar."""
ANSWERS = ("yes", "unclear", "no", "too few seeds", "not judged")

COLUMNS = [
    "claim", "case", "bound", "mean", "low", "high", "above", "seeds", "answer", "gated", "all_mean", "all_low", "all_high",
    "all_answer",
]  # fmt: skip


@figure(
    "study.published",
    question="studies",
    marks={
        "figure": "Each point is a published figure, read off the axis below, and the mean of ours over seeds, read off the axis "
        "at the left.",
        "spread": "The bars are one standard deviation to either side.",
        "same": "On the dashed line both are the same: a point above it is larger in ours, one below smaller.",
        "gated": "Ours is of the runs whose accuracy is above the share of the largest class by a margin; a figure without such "
        "a run has no point.",
    },
)
def published_and_ours(tables: Tables) -> Chart | None:
    """Published figures, and ours beside them.

    There is a panel for each quantity. What was published is mostly one run; ours are means over seeds.
    """
    import altair as alt
    import pandas as pd

    table = table_of(tables, "study.published")
    if "ours" not in table or table["ours"].isna().all():
        return None
    frame = _panelled(table[table["ours"].notna()])
    gated = ["gated"] if (table.get("gated", pd.Series(dtype=float)) > 0).any() else []
    names = list(frame["of"].unique())
    colour, shape = told_apart("of", names, **below(names))
    base = alt.Chart(frame).encode(
        alt.X("published:Q", title="published").scale(zero=False).axis(tickCount=4),
        alt.Y("ours:Q", title="ours").scale(zero=False).axis(tickCount=4),
    )
    points = (
        base.transform_filter("!datum.line")
        .encode(tooltip=["what", *(alt.Tooltip(name, format=".3f") for name in ("published", "ours", "sd")), "n", "holds"])
        .encode(colour)
    )
    layers = [
        dashed(base.transform_filter("datum.line").mark_line(strokeWidth=1, color=GREY, style="same"), "the same"),
        points.mark_rule(opacity=0.5, style="spread" if (frame["sd"] > 0).any() else []).encode(alt.Y("low:Q"), alt.Y2("high:Q")),
        points.mark_point(aria=False, filled=True, size=40, opacity=0.9, style=["figure", *gated]).encode(shape),
    ]
    panels = alt.Facet("quantity:N", title=None, sort=list(frame["quantity"].unique()))
    chart = alt.layer(*layers).properties(width=PANEL, height=PANEL).facet(panels, columns=3)
    return chart.resolve_scale(x="independent", y="independent")


def _panelled(frame: "pd.DataFrame") -> "pd.DataFrame":
    """What is drawn: the corpus, or the run where there are several, tells the points of a panel apart."""
    import pandas as pd

    several = len(runs_of(frame)) > 1
    apart = frame["run"] if several or "corpus" not in frame else frame["corpus"]
    spread = frame.get("sd", pd.Series(0.0, frame.index)).fillna(0.0)
    drawn = frame.assign(of=apart.fillna(""), sd=spread, low=frame["ours"] - spread, high=frame["ours"] + spread, line=False)
    drawn = drawn.assign(quantity=drawn.get("quantity", "all"))
    for column in ("of", "what", "quantity"):
        drawn = renamed(drawn, shown(drawn[column], LONGEST), column)
    drawn = drawn[["what", "of", "quantity", "published", "ours", "sd", "low", "high", "n", "holds", "line"]]
    return pd.concat([drawn, _diagonals(drawn)], ignore_index=True)


def _diagonals(frame: "pd.DataFrame") -> "pd.DataFrame":
    """For each panel the two ends of its dashed line, which reach as far as all else in it: both axes are then alike."""
    import pandas as pd

    both = frame.groupby("quantity", sort=False)[["published", "low", "high"]]
    ends = pd.concat([both.min().min(axis=1), both.max().max(axis=1)])
    same = {name: ends.to_numpy() for name in ("published", "ours", "low", "high")}
    return pd.DataFrame({"quantity": ends.index, **same, "of": frame["of"].iloc[0], "line": True})


@figure(
    "study.claims",
    question="studies",
    marks={
        "mean": "The point is the mean over seeds.",
        "interval": "The bar is its 95 % interval: the claim holds for a case whose whole bar lies right of the dashed line, and "
        "is unclear where the bar crosses it.",
        "bound": "The dashed line is the bound that the number should lie above.",
        "few": "Without a bar there were too few seeds.",
        "gated": "Runs whose accuracy is hardly above the share of the largest class are left out; their number is beside the "
        "case. The grey point and bar are of all runs.",
    },
)
def claims(tables: Tables) -> Chart | None:
    """What became of each claim, case by case.

    Each row is a case of a claim, and shows a number that should lie above a bound.
    """
    import altair as alt

    frame = table_of(tables, "study.claims")
    if frame.empty:
        return None
    several = len(runs_of(frame)) > 1
    names = frame["run"] + ", " + frame["claim"] if several else frame["claim"]
    frame = renamed(frame.assign(claim=names), shown(names, LONGEST), "claim")
    frame = renamed(frame, shown(frame["case"], BESIDE), "case").pipe(_with_all)[COLUMNS]
    there = [answer for answer in ANSWERS if (frame["answer"] == answer).any()]
    colour, shape = told_apart("answer", there, ANSWERS, **below(there))
    cases = alt.Y("case:N", title=None, sort=list(frame["case"].unique())).axis(grid=True, ticks=False, domain=False)
    shares = [alt.Tooltip(name, format=".3f") for name in ("mean", "low", "high")]
    tips: list[Any] = ["case", *shares, "above", "seeds", "answer", "gated", "all_answer"]
    every = alt.Chart(frame).encode(cases, tooltip=tips)
    base = every.encode(colour)
    known, gated = frame["low"].notna(), frame["gated"] > 0
    few = [] if known.all() else ["few"]
    others = every.transform_filter("datum.gated > 0")
    grey = [
        others.mark_rule(color=GREY, strokeWidth=1, style="gated").encode(alt.X("all_low:Q", title=None), alt.X2("all_high:Q")),
        others.mark_point(aria=False, color=GREY, size=60).encode(alt.X("all_mean:Q", title=None)),
    ]
    layers = [
        dashed(alt.Chart(frame).mark_rule(color=GREY, style="bound").encode(alt.X("bound:Q")), "the bound"),
        *(grey if gated.any() else []),
        base.mark_rule(strokeWidth=2, style="interval" if known.any() else []).encode(
            alt.X("low:Q", title=None), alt.X2("high:Q")
        ),
        base.mark_point(aria=False, filled=True, size=60, opacity=1, style=["mean", *few]).encode(
            alt.X("mean:Q", title=None), shape
        ),
    ]
    rows = alt.Facet("claim:N", title=None, sort=list(dict.fromkeys(names.map(shown(names, LONGEST)))))
    chart = alt.layer(*layers).properties(width=CASES).facet(rows, columns=1)
    return chart.resolve_scale(x="independent", y="independent")


def _with_all(frame: "pd.DataFrame") -> "pd.DataFrame":
    """The cases with the number of gated runs in their names, and with what all runs say; earlier tables have neither."""
    missing = {name: frame[name.removeprefix("all_")] for name in COLUMNS if name.startswith("all_") and name not in frame}
    frame = frame.assign(**missing, gated=frame.get("gated", 0))
    names = [f"{case} ({count:g} gated)" if count else case for case, count in zip(frame["case"], frame["gated"], strict=True)]
    return frame.assign(case=names)
