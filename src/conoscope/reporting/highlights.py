"""highlights(): what a measurement tells in some twenty lines: findings, and at most ten lines of key numbers."""

import shutil
import textwrap
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from conoscope.common.markup import cut
from conoscope.common.terminal import printable
from conoscope.reporting.facts import run_facts, screen_counts, screen_facts
from conoscope.reporting.findings import find
from conoscope.results.store import measured

if TYPE_CHECKING:
    import pandas as pd

MOST = 10
"""How many lines of key numbers are shown."""
LAYERS = 5
"""How many layers are shown of a deep model: the first, the last, and some between."""
MAIN = {"class_cones": "class_cones.nearest"}
"""The table that is shown of a measure, where it is not the first."""
FAIR = {"class_cones.nearest": ("representative", "held_out")}
"""The rows that are shown first of a table: directions of one half of the texts, compared with the other half."""
ORDER = (
    "sim",
    "attention_entropy",
    "class_cones",
    "effective_rank",
    "norms",
    "mixing",
    "heads",
    "vector_norms",
    "gates",
    "stream",
)
"""The measures that are shown first."""
WIDTH, LONGEST = 120, 60
"""The width of a line, and of what a number is of."""


@dataclass(frozen=True)
class KeyNumber:
    """Values by layer of one row of a table, and what the row is of: its keys; means over heads where it has heads."""

    table: str
    keys: Mapping[str, Any]
    layers: Mapping[int, float]

    @property
    def of(self) -> str:
        """What the number is of, in one line."""
        return cut(printable(", ".join(str(value) for value in self.keys.values())), LONGEST)


@dataclass(frozen=True)
class Highlights:
    """What was measured, what must be known of it first, the findings, and the key numbers."""

    measured: str
    facts: Mapping[str, str]
    findings: Sequence[str]
    numbers: Sequence[KeyNumber]
    counts: Mapping[str, float | int | None] = field(default_factory=dict)
    """Accuracy and cut texts as numbers, for JSON."""

    def record(self) -> dict[str, Any]:
        """The same as a mapping, for JSON."""
        numbers = [{"table": one.table, **one.keys, "value_by_layer": dict(one.layers)} for one in self.numbers]
        facts = {name.lower().replace(" ", "_"): fact for name, fact in self.facts.items()}
        return {
            "measured": self.measured,
            **facts,
            **self.counts,
            "facts": facts,
            "findings": list(self.findings),
            "key_numbers": numbers,
        }

    def __str__(self) -> str:
        width = min(shutil.get_terminal_size((WIDTH, 24)).columns, WIDTH)
        facts = [printable(f"{name}: {fact}") for name, fact in self.facts.items()]
        findings = [textwrap.fill(printable(text), width, initial_indent="- ", subsequent_indent="  ") for text in self.findings]
        blocks = ("\n".join((printable(self.measured), *facts)), "\n".join(findings), self._table())
        return "\n\n".join(filter(None, blocks))

    def _table(self) -> str:
        if not self.numbers:
            return ""
        layers = _some(sorted({layer for one in self.numbers for layer in one.layers}))
        named = max(len("by layer"), *(len(one.table) for one in self.numbers))
        of = max(len(one.of) for one in self.numbers)
        head = "  ".join(("by layer".ljust(named), " " * of, *(str(layer).rjust(7) for layer in layers)))
        return "\n".join(
            (
                head,
                *(
                    "  ".join((one.table.ljust(named), one.of.ljust(of), *(_cell(one.layers.get(layer)) for layer in layers)))
                    for one in self.numbers
                ),
            )
        )


def highlights(tables: "Mapping[str, pd.DataFrame]", provenance: Mapping[str, Any]) -> Highlights:
    """The highlights of the tables of one result."""
    import pandas as pd

    runs = pd.DataFrame([{**run_facts(provenance), "run": ""}])
    findings = [found.text.replace("`", "") for found in find({**tables, "runs": runs})]
    facts = {name: fact for name, fact in screen_facts(provenance, tables).items() if fact}
    return Highlights(measured(provenance), facts, findings, key_numbers(tables), screen_counts(provenance, tables))


def key_numbers(tables: "Mapping[str, pd.DataFrame]") -> list[KeyNumber]:
    """The first row of each measure's main table, then of each the second, until there are ten; in ORDER."""
    main: dict[tuple[str, str], str] = {}
    for name in tables:
        table, _, options = name.partition(":")
        measure = table.partition(".")[0]
        if main.setdefault((measure, options), name) != name and table == MAIN.get(measure):
            main[measure, options] = name
    ordered = sorted(main, key=lambda key: ORDER.index(key[0]) if key[0] in ORDER else len(ORDER))
    rows = {name: list(_rows(name, tables[name])) for name in (main[key] for key in ordered)}
    places = [(place, number) for number, name in enumerate(rows) for place in range(len(rows[name]))]
    chosen = sorted(sorted(places)[:MOST], key=lambda pair: pair[::-1])
    names = list(rows)
    return [rows[names[number]][place] for place, number in chosen]


def _rows(name: str, frame: "pd.DataFrame") -> Iterator[KeyNumber]:
    """The first rows of a table: values by layer, those of whole vectors before means over heads."""
    if name in FAIR:
        column, value = FAIR[name]
        frame = frame.sort_values(column, key=lambda values: values != value, kind="stable")
    columns = list(frame.columns)
    if not {"layer", "head", "value"} <= set(columns):
        return
    keys = [key for key in ("site", *columns[columns.index("head") + 1 : columns.index("value")]) if key in columns]
    of = frame["head"].isna().map({True: "", False: "mean over heads"})
    grouped = frame.assign(_of=of).dropna(subset="value").groupby([*keys, "_of"], sort=False, dropna=False)
    for place, (group, rows) in enumerate(grouped):
        if place >= MOST:
            return
        means = rows.groupby("layer")["value"].mean()
        told = {key: value for key, value in zip([*keys, "of"], group, strict=True) if value not in ("", None) and value == value}
        yield KeyNumber(name, told, dict(zip(map(int, means.index), map(float, means), strict=True)))


def _some(layers: Sequence[int]) -> list[int]:
    """The layers to show: all of a few, else the first, the last and some between."""
    if len(layers) <= LAYERS:
        return list(layers)
    last = len(layers) - 1
    return [layers[round(number * last / (LAYERS - 1))] for number in range(LAYERS)]


def _cell(value: float | None) -> str:
    return ("" if value is None else f"{value:.3f}").rjust(7)
