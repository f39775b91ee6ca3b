"""What two runs differ by, as the report and `conoscope compare` show it: findings, and a table of the largest differences."""

import shutil
import textwrap
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from conoscope.common.errors import ConoscopeError
from conoscope.common.markup import Html, cut, joined, quoted, sentence, tag
from conoscope.common.terminal import printable
from conoscope.reporting.gathering import Run
from conoscope.results.differences import Differences
from conoscope.results.store import measured

if TYPE_CHECKING:
    import pandas as pd

WIDTH, LONGEST, NAME = 120, 60, 24
"""The width of a line, of a place, and of a run's name."""
RULE = (
    "The largest differences whose intervals leave out 0, at most three of a table. Size is the difference divided by the "
    "largest of both values and the standard deviation."
)


def differing(runs: Sequence[Run]) -> Html | None:
    """The section of the report, if exactly two of its runs are measured results, of different names."""
    there = [run for run in runs if run.result is not None]
    if len(there) != 2 or there[0].name == there[1].name:
        return None
    try:
        one, other = (run.result for run in there if run.result is not None)
        return section(Differences(one, other, [run.name for run in there]))
    except ConoscopeError as error:
        return tag("p", "No differences can be computed: ", quoted(error, 400))
    except ModuleNotFoundError as error:
        return tag("p", f"Differences are computed from sums, which needs {error.name}; it is not installed.")


def section(differences: Differences) -> Html:
    """The direction, the findings and the largest differences as HTML."""
    rows = shown_rows(differences)
    items = (tag("li", tag("p", sentence(printable(text)))) for text in differences.findings)
    parts = [
        tag("p", "Differences are ", quoted(differences.direction), ", with 95 % intervals."),
        tag("div", tag("ol", *items), class_="findings"),
    ]
    if len(rows):
        heads = (tag("th", quoted(name), scope="col", class_="text") for name in rows.columns)
        lines = (tag("tr", *(tag("td", quoted(cell), class_="text") for cell in row)) for row in rows.itertuples(index=False))
        table = tag("table", tag("caption", RULE, class_="told"), tag("thead", tag("tr", *heads)), tag("tbody", *lines))
        parts.append(tag("div", table, class_="scroll", role="region", aria_label="the largest differences", tabindex="0"))
    return joined(parts)


def shown_text(differences: Differences) -> str:
    """The same as text: which runs, the direction, the findings and the largest differences."""
    width = min(shutil.get_terminal_size((WIDTH, 24)).columns, WIDTH)
    runs = zip(differences.called, (differences.one, differences.other), strict=True)
    head = [printable(f"{name}: {measured(run.provenance)}") for name, run in runs]
    findings = [textwrap.fill(text, width, initial_indent="- ", subsequent_indent="  ") for text in differences.findings]
    rows = shown_rows(differences)
    table = [textwrap.fill(RULE, width), rows.to_string(index=False)] if len(rows) else []
    blocks = ("\n".join([*head, f"difference: {differences.direction}, with 95 % intervals"]), "\n".join(findings), *table)
    return "\n\n".join(blocks)


def record(differences: Differences) -> Mapping[str, Any]:
    """The same as a mapping, for JSON."""
    return {
        "runs": [measured(run.provenance) for run in (differences.one, differences.other)],
        "names": [*differences.called],
        "difference": differences.direction,
        "findings": differences.findings,
        "largest": differences.largest,
        "left_out": differences.left_out,
    }


def shown_rows(differences: Differences) -> "pd.DataFrame":
    """The largest differences as texts, under the names of both runs."""
    import pandas as pd

    found = differences.largest
    numbers = {name: found[name].map("{:.3g}".format) for name in ("size", "value", "other_value", "difference", "low", "high")}
    texts = {name: found[name].map(lambda text: printable(cut(text, LONGEST))) for name in ("table", "place", "interval")}
    ends = numbers["low"] + " to " + numbers["high"]
    columns = {
        "size": numbers["size"],
        "table": texts["table"],
        "place": texts["place"],
        "value": numbers["value"],
        "other_value": numbers["other_value"],
        "difference": numbers["difference"],
        "95 % interval": ends,
        "how it was made": texts["interval"],
    }
    # A run may have the name of a column, so columns are renamed by their places.
    one, other = (printable(cut(name, NAME)) for name in differences.called)
    renamed = {"value": one, "other_value": other, "difference": printable(f"{other} minus {one}")}
    return pd.DataFrame(columns).set_axis([renamed.get(name, name) for name in columns], axis=1)
