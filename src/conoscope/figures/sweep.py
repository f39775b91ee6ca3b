"""A sweep: what a penalty on attention's entropy does to attention, to cones, to lengths and to accuracy."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

from conoscope.figures.base import Chart, Tables, figure, name_of, table_of
from conoscope.figures.marks import RUN, below, cut, renamed, runs_shown, shown, told_apart

if TYPE_CHECKING:
    import pandas as pd


class Panel(NamedTuple):
    """What a panel shows: a column of a table, the mean over the rows that are so, of heads where there are such."""

    table: str
    rows: Mapping[str, str]
    column: str = "value"


PENALTY = "entropy_penalty"
APART = ("corpus", "preset", "layers", "vectors", "rationale_penalty", "lagrange_penalty")
"""What else may tell runs apart: only those that share all of it are on one line."""
PANELS = {
    "attention entropy, classifying token": Panel("attention_entropy", {"row": "cls"}),
    "attention entropy, all rows": Panel("attention_entropy", {"row": "all"}),
    "accuracy": Panel("class_cones.nearest", {"representative": "mean", "control": "none"}, "model"),
    "SIM of keys": Panel("sim", {"site": "key"}),
    "SIM of values": Panel("sim", {"site": "value"}),
    "length of keys": Panel("vector_norms", {"site": "key"}),
    "AUROC of attention": Panel("plausibility", {"map": "attention", "metric": "auroc", "average": "micro"}),
}


@figure(
    "runs",
    "attention_entropy",
    question="training",
    marks={
        "run": "Each point is a run, mean over layers and heads.",
        "mean": "The line joins the means of the runs that share a λ.",
    },
)
def penalty_sweep(tables: Tables) -> Chart | None:
    """What a penalty on attention's entropy changes.

    From left to right models that were trained with a larger weight λ of the penalty, 0 being without. A penalty that works
    lowers the entropy; where accuracy falls with it, attention was made sharp at a cost.
    """
    import altair as alt
    import pandas as pd

    runs = _trained(tables)
    if runs[PENALTY].nunique() < 2:
        return None
    frame = pd.concat([_rows(tables, title, panel) for title, panel in PANELS.items()]).merge(runs, on="run")
    if frame.empty:
        return None
    frame = renamed(frame, runs_shown(tables, frame), "run")
    groups = list(frame["group"].unique())
    colour, shape = told_apart("group", groups, **below(groups, 1))
    base = alt.Chart(frame).encode(
        alt.X(f"{PENALTY}:O", title="weight λ of the penalty").axis(labelAngle=0, labelOverlap=True), colour
    )
    layers = [
        base.mark_line(style="mean").encode(alt.Y("mean(value):Q", title=None).scale(zero=False)),
        base.mark_point(aria=False, filled=True, size=45, opacity=0.8, style="run").encode(
            alt.Y("value:Q", title=None).scale(zero=False),
            shape,
            tooltip=["run", alt.Tooltip(PENALTY, title="λ"), "panel", alt.Tooltip("value", format=".3f")],
        ),
    ]
    panels = alt.Facet("panel:N", title=None, sort=list(frame["panel"].unique()))
    chart = alt.layer(*layers).properties(width=195, height=150).facet(panels, columns=3)
    return chart.resolve_scale(y="independent")


def _trained(tables: Tables) -> "pd.DataFrame":
    """The runs whose penalty is known, each with what it shares with those on its line."""
    runs = tables["runs"].dropna(subset=PENALTY).drop_duplicates("run")
    differing = [name for name in APART if name in runs and runs[name].nunique(dropna=False) > 1]
    groups = [", ".join(f"{name} {_said(row[name])}" for name in differing) for _, row in runs.iterrows()]
    return renamed(runs.assign(group=groups), shown(groups, RUN), "group")[["run", PENALTY, "group"]].astype({PENALTY: float})


def _said(value: Any) -> str:
    import pandas as pd

    return "none" if pd.isna(value) else f"{value:g}" if isinstance(value, float) else cut(value, RUN)


def _rows(tables: Tables, title: str, panel: Panel) -> "pd.DataFrame":
    """Run, panel and value: the mean of what a panel shows of each run; no rows where its table is not there."""
    import pandas as pd

    if name_of(tables, panel.table) is None:
        return pd.DataFrame({"run": [], "panel": [], "value": []})
    frame = table_of(tables, panel.table)
    for column, value in panel.rows.items():
        frame = frame[frame[column] == value]
    if "head" in frame and frame["head"].notna().any():
        frame = frame[frame["head"].notna()]
    means = frame.groupby("run", sort=False)[panel.column].mean()
    return pd.DataFrame({"run": means.index, "panel": title, "value": means.to_numpy(dtype=float).round(5)})
