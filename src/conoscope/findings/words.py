"""The finding on words: the map that agrees best with rationales."""

from typing import TYPE_CHECKING, Any

from conoscope.corpora.base import GRAMMAR
from conoscope.figures.marks import LEGEND, cut
from conoscope.findings.claims import (
    Answer,
    Claim,
    Control,
    Facts,
    counted,
    decimal,
    in_common,
    known,
    largest,
    largest_of_runs,
    rows_of,
)

if TYPE_CHECKING:
    import pandas as pd

CHANCE = 0.5
"""The AUROC of chance."""
RANDOM = "random"


def plausibility(frame: "pd.DataFrame", facts: Facts) -> Answer | None:
    """The map with the highest AUROC; of several runs the same map in each, where they share one."""
    frame = frame[(frame["metric"] == "auroc") & (frame["average"] == "micro")]
    random = {row["run"]: row["value"] for _, row in frame[frame["map"] == RANDOM].iterrows()}
    maps = frame[frame["map"] != RANDOM]
    if maps.empty:
        return None
    maps = maps.assign(maps=maps.groupby("run")["map"].transform("count"))
    shared = in_common(maps, ["map"])
    if shared.empty:
        chosen, of = largest_of_runs(maps, "value"), "the best map of each run"
    else:
        best = largest(shared, "value")
        chosen, of = shared[shared["map"] == best["map"]], f"map {cut(best['map'], LEGEND)}, the best in {best['run']}"
    return Answer(
        f"Agreement with the rationales (AUROC), {of}",
        {run: _claim(row, random.get(run), shared.empty, facts.get(run, {})) for run, row in rows_of(chosen).items()},
    )


def _claim(row: Any, random: float | None, named: bool, facts: Any) -> Claim:
    value, verdict = decimal(row["value"]), _verdict(row, random)
    name = cut(row["map"], LEGEND)
    which = f"The best of {row['maps']} maps, {name}," if row["maps"] > 1 else f"The map {name}"
    controls = [Control("chance", decimal(CHANCE, 1))]
    controls += [] if random is None else [Control("random map", decimal(random))]
    selected = [f"chosen among {row['maps']} maps on the same sentences, so its interval is too good"] if row["maps"] > 1 else []
    marked = ["marked by the grammar of the corpus, not by people"] if facts.get("marked_by") == GRAMMAR else []
    return Claim(
        sentence=f"{which} {verdict} the rationales: AUROC {value}",
        short=f"{value}{f' by {name}' if named else ''}, {verdict} the rationales",
        values=(value,),
        verdict=verdict,
        interval=(decimal(row["low"]), decimal(row["high"])) if known(row["low"]) and known(row["high"]) else None,
        controls=tuple(controls),
        of=(*selected, counted(row["n"], "word", "words"), *marked),
    )


def _verdict(row: Any, random: float | None) -> str:
    """By the stronger of chance and the random map."""
    least, most = (end if known(end) else row["value"] for end in (row["low"], row["high"]))
    chances = (CHANCE, CHANCE if random is None else random)
    if least > max(chances):
        return "agrees with"
    return "runs against" if most < min(chances) else "cannot be told from chance by"
