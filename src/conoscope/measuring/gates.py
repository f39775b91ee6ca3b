"""The kind of gate of each head by other thresholds, and the grid of layers and heads as text."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import fields, replace
from typing import TYPE_CHECKING

from conoscope.common.bounds import WEIGHT
from conoscope.common.errors import MeasureError, one_of
from conoscope.common.options import refuse_twice
from conoscope.common.vocabulary import LETTERS
from conoscope.measures.gates import NEEDS, Thresholds, names_of_heads
from conoscope.results.result import Result
from conoscope.sums.samples import Sample

if TYPE_CHECKING:
    import pandas as pd


def sort_gates(result: Result, limits: Thresholds | None = None) -> "pd.DataFrame":
    """The gates of every head by these thresholds, from scores measured before; columns: layer, head, gates, stability, n."""
    import pandas as pd

    rows = []
    need = next((need for need in NEEDS.values() if need in result.tally.needs), NEEDS["16"])
    for layer, maps in result.tally.of(need):
        assert isinstance(maps, Sample)
        named = zip(*names_of_heads(maps, limits or Thresholds()), strict=True)
        rows += [
            {"layer": layer, "head": head, "gates": names, "stability": float(stability), "n": len(maps.ranks)}
            for head, (names, stability) in enumerate(named, 1)
        ]
    if not rows:
        raise MeasureError("no gates were measured here; give a folder written by conoscope measure -m gates -o")
    return pd.DataFrame(rows)


def thresholds(given: Sequence[str]) -> Thresholds:
    """The default thresholds with changes, each given as `open.entropy=0.7`."""
    known = [field.name.replace("_", ".", 1) for field in fields(Thresholds)]
    changed: dict[str, float] = {}
    refuse_twice("threshold", (assignment.partition("=")[0] for assignment in given))
    for assignment in given:
        name, _, text = assignment.partition("=")
        if name not in known:
            raise MeasureError(f"no threshold {name!r}; known thresholds: {one_of(known)}")
        try:
            changed[name.replace(".", "_")] = float(WEIGHT.read(text))
        except ValueError as error:
            raise MeasureError(f"the threshold {assignment!r} has no number from 0; give one, as in {name}=0.5") from error
    return replace(Thresholds(), **changed)


def gate_map(sorted_gates: "pd.DataFrame") -> str:
    """The grid as text, a row a layer, a column a head and a letter a gate; then a legend with the count of each gate."""
    letters = sorted_gates.assign(gates=[_letters(names) for names in sorted_gates["gates"]])
    grid = letters.pivot(index="layer", columns="head", values="gates").fillna("")
    count = Counter(gate for names in sorted_gates["gates"] for gate in names.split(" + "))
    legend = [f"{letter}  {gate:20}{count[gate]:4}" for gate, letter in LETTERS.items()]
    heads = (
        f"{len(sorted_gates)} heads; {sorted_gates['n'].max()} examples; mean stability {sorted_gates['stability'].mean():.2f}"
    )
    return "\n".join((grid.to_string(), "", *legend, "", heads))


def _letters(names: str) -> str:
    return "".join(LETTERS[gate] for gate in names.split(" + "))
