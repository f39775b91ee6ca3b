"""The finding on classes: whether the nearest class direction tells the class, against all of its controls."""

from typing import TYPE_CHECKING, Any

from conoscope.reporting.findings.claims import (
    Answer,
    Claim,
    Control,
    Facts,
    counted,
    exceeds,
    in_common,
    known,
    listed,
    lower_end,
    percent,
    probability,
    whole,
)

if TYPE_CHECKING:
    import pandas as pd

DIRECTIONS = {
    "held_out": "means of the other half",
    "mean": "class means",
    "medoid": "middle examples",
    "first": "first right examples",
}
"""Representatives of a class, the most trusted first."""
SURE = 0.05
"""From which p on shuffled labels do as well."""


def classes(frame: "pd.DataFrame", facts: Facts) -> Answer | None:
    """The nearest class direction of hidden states in the last layer of each run, with the same kind of direction in all."""
    frame = frame[frame["site"] == "hidden"]
    frame = frame[frame["layer"] == frame.groupby("run")["layer"].transform("max")]
    scored = frame[(frame["control"] == "none") & frame["representative"].isin(list(DIRECTIONS))]
    scored = scored.sort_values("representative", key=lambda names: names.map(list(DIRECTIONS).index), kind="stable")
    if scored.empty:
        return None
    shared = in_common(scored, ["representative"])
    chosen = (scored if shared.empty else shared).drop_duplicates("run")
    rows = {row["run"]: row for _, row in chosen.iterrows()}
    order = [run for run in frame["run"].unique() if run in rows]
    apart = [name for name in ("representative", "layer") if chosen[name].nunique() > 1]
    apart += ["the vector of a text"] if len({_read(row, facts.get(run, {})) for run, row in rows.items()}) > 1 else []
    differ = f" (runs differ in {listed(apart)})" if apart else ""
    return Answer(
        f"Nearest class direction in the last layer{differ}",
        {run: _claim(rows[run], frame[frame["run"] == run], facts.get(run, {})) for run in order},
    )


def _claim(row: Any, frame: "pd.DataFrame", facts: Any) -> Claim:
    value, verdict, what = percent(row["value"]), _verdict(row, frame), _vector(row, facts)
    of = f"{value} of {counted(row['n'], 'example', 'examples')}"
    how = DIRECTIONS[row["representative"]]
    return Claim(
        sentence=f"The direction of {what} in layer {row['layer']} {verdict}: the nearest of the {how} is right for {of}",
        short=f"{of}, {verdict}, by {what} in layer {row['layer']} and {how}",
        values=(value,),
        verdict=verdict,
        controls=tuple(_controls(row, frame)),
    )


def _vector(row: Any, facts: Any) -> str:
    """Which vector of a text it is, in words."""
    if known(facts.get("vector")):
        return str(facts["vector"])
    return "what the classifier reads" if known(row.get("model")) else "the vector that stands for a text"


def _read(row: Any, facts: Any) -> str:
    """The vector, whoever chose it."""
    return str(facts["vector_read"]) if known(facts.get("vector_read")) else _vector(row, facts)


def _controls(row: Any, frame: "pd.DataFrame") -> list[Control]:
    """Largest class, length alone, shuffled labels, and the model itself: those that the table has."""
    found = [Control("largest class", percent(row["chance"]))] if known(row["chance"]) else []
    controls = _by_control(frame)
    if "norm" in controls:
        found.append(Control("length alone", percent(controls["norm"]["value"])))
    if "shuffled" in controls:
        found.append(_shuffled(controls["shuffled"]))
    if known(row.get("model")):
        found.append(Control("the model itself", percent(row["model"])))
    if known(row.get("agreement")):
        found.append(Control("same answer as the model", percent(row["agreement"])))
    return found


def _shuffled(row: Any) -> Control:
    if not known(row.get("p")):
        return Control("shuffled labels", percent(row["value"]))
    more = (
        *(percent(row["low"]), " to ", percent(row["high"]), " in ", whole(row["permutations"]), " permutations, "),
        *(percent(row["observed"]), " with the true labels of the same sample, p = ", probability(row["p"])),
    )
    return Control("shuffled labels", percent(row["value"]), more)


def _verdict(row: Any, frame: "pd.DataFrame") -> str:
    """By the strongest of the controls that the value does not exceed: by the lower end of its interval, and what lengths get,
    which is counted on as few examples, by the interval of the difference."""
    if row["chance"] == 1:
        return "has but one class to tell"
    least, controls = lower_end(row["value"], row["n"]), _by_control(frame)
    failed = {"the largest class": row["chance"]} if least <= row["chance"] else {}
    if "norm" in controls:
        norm = controls["norm"]
        failed |= {} if exceeds(row["value"], row["n"], norm["value"], norm["n"]) else {"length alone": norm["value"]}
    if "shuffled" in controls:
        shuffled = controls["shuffled"]
        by_chance = known(shuffled.get("p")) and shuffled["p"] > SURE
        bound = max(shuffled["value"], row["value"]) if by_chance else shuffled["value"]
        failed |= {"shuffled labels": bound} if least <= bound else {}
    return f"hardly tells the class beyond {max(failed, key=failed.__getitem__)}" if failed else "tells the class"


def _by_control(frame: "pd.DataFrame") -> dict[str, Any]:
    return {row["control"]: row for _, row in frame.iterrows() if row["control"] != "none"}
