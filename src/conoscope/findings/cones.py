"""Findings on cones: the narrowest one against its baseline, and the effective rank."""

from typing import TYPE_CHECKING, Any

from conoscope.findings.claims import (
    Answer,
    Claim,
    Control,
    Facts,
    Number,
    counted,
    decimal,
    in_common,
    known,
    largest,
    largest_of_runs,
    mean_over_heads,
    rows_of,
    whole,
)

if TYPE_CHECKING:
    import pandas as pd

NARROW, WIDE = 0.8, 0.4
"""From which SIM on vectors point one way, and from which they gather at all."""
APART = 0.05
"""By how much a cone may exceed its baseline and still be one cone for all sentences."""
ENOUGH = 8
"""Vectors for each coordinate that an effective rank needs; of fewer it reads low."""
SITES = {
    "hidden": "hidden states",
    "input": "layer inputs",
    "context": "head outputs",
    "output": "attention outputs",
    "query": "queries",
    "key": "keys",
    "value": "values",
}
SUBJECT = "Mean cosine within a sentence (SIM)"
PLACE = ["site", "layer", "heads"]
BETWEEN = "between different sentences"


def cone(frame: "pd.DataFrame", facts: Facts) -> Answer | None:
    """The narrowest cone of any site and layer; of several runs the same site and layer in each, where they share one."""
    means = mean_over_heads(frame, ["site", "layer"])
    if means.empty:
        return None
    places = means.groupby("run")["site"].transform("count")
    means = means.assign(places=places)
    own = rows_of(largest_of_runs(means, "value"))
    if len(own) == 1:
        return Answer(f"{SUBJECT}, at its narrowest", {run: _cone(row) for run, row in own.items()})
    shared = in_common(means, PLACE)
    if shared.empty:
        return Answer(
            f"{SUBJECT}, at its narrowest, which is another site or layer in each run",
            {run: _cone(row) for run, row in own.items()},
        )
    chosen = largest(shared, "value")
    there = shared[(shared[PLACE] == chosen[PLACE]).all(axis=1)]
    return Answer(
        f"{SUBJECT}, {_place(chosen)} in every run (the narrowest cone that all have, narrowest in {chosen['run']})",
        {run: _cone(row, own[run]) for run, row in rows_of(there).items()},
    )


def _cone(row: Any, own: Any = None) -> Claim:
    value, verdict = decimal(row["value"]), _cone_verdict(row)
    controls = [Control(BETWEEN, decimal(row["baseline"]))] if known(row.get("baseline")) else []
    elsewhere = [] if own is None or (own[PLACE] == row[PLACE]).all() else [_own_narrowest(own)]
    place = _place(row)
    which = (
        f"The narrowest of {whole(row['places'])} cones, one for each site and layer, is" if row["places"] > 1 else "One cone,"
    )
    said = f"{which} that of {place}: a mean cosine within a sentence (SIM) of {value}, {verdict}"
    short = f"{value}, {verdict}" if own is not None else f"{value} ({place}), {verdict}"
    return Claim(
        sentence=said,
        short=short,
        values=(value,),
        verdict=verdict,
        controls=(*controls, *elsewhere),
        of=(counted(row["n"], "sentence", "sentences"),),
    )


def _own_narrowest(own: Any) -> Control:
    """The narrowest cone of a run, with its own baseline, beside the one that all runs have."""
    more = (f"{BETWEEN} ", decimal(own["baseline"])) if known(own.get("baseline")) else ()
    return Control(f"its own narrowest, {_place(own)},", decimal(own["value"]), more)


def _cone_verdict(row: Any) -> str:
    value, baseline = row["value"], row.get("baseline")
    if value < WIDE:
        return "no narrow cone"
    how = "nearly one direction" if value >= NARROW else "a wide cone"
    if not known(baseline):
        return how
    if baseline >= value - APART:
        return f"{how}, the same for all sentences"
    return f"{how}, another for each sentence" if baseline < value / 2 else f"{how}, partly the same for all sentences"


def _place(row: Any) -> str:
    site = SITES.get(row["site"], f"vectors of the site {row['site']}")
    heads = f", mean over {counted(row['heads'], 'head', 'heads')}" if row["heads"] else ""
    return f"{site} of layer {row['layer']}{heads}" if row["layer"] else f"{site} of layer 0 (the embedding){heads}"


def rank(frame: "pd.DataFrame", facts: Facts) -> Answer | None:
    """The effective rank of hidden states in the last layer of each run that has vectors enough."""
    frame = frame[(frame["site"] == "hidden") & frame["head"].isna()]
    last = frame[frame["layer"] == frame.groupby("run")["layer"].transform("max")]
    enough = last[last["n"] >= ENOUGH * last["width"]]
    if enough.empty:
        return None
    layers = "" if enough["layer"].nunique() == 1 else ", which differs"
    return Answer(
        f"Effective rank of hidden states in the last layer{layers}",
        {run: _rank(row, whole(row["width"])) for run, row in rows_of(enough).items()},
    )


def _rank(row: Any, width: Number) -> Claim:
    value = Number(row["value"], f"{row['value']:.0f}")
    return Claim(
        sentence=f"Hidden states of layer {row['layer']} have an effective rank of {value}, where {width} is the most it can be",
        short=f"{value} of {width} (layer {row['layer']})",
        values=(value, width),
        of=(f"{counted(row['n'], 'vector', 'vectors')}, not centred",),
    )
