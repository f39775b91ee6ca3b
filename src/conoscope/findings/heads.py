"""Findings on heads: their gates, and how evenly they attend."""

from collections import Counter
from typing import TYPE_CHECKING, Any

from conoscope.findings.claims import Answer, Claim, Control, Facts, counted, decimal, in_common, listed, percent, rows_of, whole
from conoscope.measures.gates import MIXED

if TYPE_CHECKING:
    import pandas as pd

SHOWN_GATES = 3
NO_KIND = "none is of a clear kind"


def gates(frame: "pd.DataFrame", facts: Facts) -> Answer | None:
    """How many heads have which gates, from how many texts, and how far the names hold for single texts."""
    if frame.empty:
        return None
    return Answer("Gates", {run: _gates(frame[frame["run"] == run]) for run in frame["run"].unique()})


def _gates(frame: "pd.DataFrame") -> Claim:
    names = list(frame["gates"])
    kinds = Counter(gate for gates in names for gate in gates.split(" + ") if gate != MIXED)
    total, heads, mixed = kinds.total(), counted(len(names), "head", "heads"), names.count(MIXED)
    several = any(" + " in gates for gates in names)
    gated = f"{counted(total, 'gate', 'gates')} in all{' (a head may have several)' if several else ''}" if total else "no gate"
    shown = kinds.most_common(SHOWN_GATES)
    rest = total - sum(count for _, count in shown)
    parts = [f"{whole(count)} {gate}" for gate, count in shown] + ([f"{whole(rest)} other"] if rest else [])
    which = f": {listed(parts)}" if parts else ""
    unclear = "" if not mixed else f", and {counted(mixed, 'head is', 'heads are')} of no clear kind" if total else f": {NO_KIND}"
    stability = frame["value"]
    controls = (
        Control("heads that keep their name in at least half of these texts:", whole(int((stability >= 0.5).sum()))),
        Control("mean share of texts that keep it", percent(float(stability.mean()), 0)),
    )
    texts = sorted({int(n) for n in frame["n"]})
    many = counted(texts[0], "text", "texts") if len(texts) == 1 else f"{texts[0]} to {texts[-1]} texts"
    return Claim(
        sentence=f"{heads} {'has' if len(names) == 1 else 'have'} {gated}{which}{unclear}",
        short=f"{gated} of {heads}{which}{unclear}",
        values=(whole(len(names)), *((whole(total),) if total else ())),
        of=(f"named from {many}",),
        controls=controls,
    )


def entropy(frame: "pd.DataFrame", facts: Facts) -> Answer | None:
    """The entropy of attention, mean over heads: the two ends of one run, or the layer in which runs differ most."""
    grouped = frame[frame["row"] == "all"].groupby(["run", "layer"], as_index=False, sort=False)
    means = grouped.agg(value=("value", "mean"), heads=("value", "count"), n=("n", "max"))
    if means.empty:
        return None
    runs = list(means["run"].unique())
    if len(runs) == 1:
        return Answer("Entropy of attention (1 is uniform)", {runs[0]: _entropy_of_layers(means)})
    shared = in_common(means, ["layer"])
    if shared.empty:
        claims = {run: _entropy_of_layers(means[means["run"] == run]) for run in runs}
        return Answer("Entropy of attention (1 is uniform), of different layers", claims)
    ends = shared.groupby("layer")["value"].agg(["min", "max"])
    layer = (ends["max"] - ends["min"]).idxmax()
    there = shared[shared["layer"] == layer]
    return Answer(
        f"Entropy of attention in layer {layer}, where the runs differ most (1 is uniform)",
        {run: _entropy_of_layer(row) for run, row in rows_of(there).items()},
    )


def _entropy_of_layers(means: "pd.DataFrame") -> Claim:
    ordered = means.sort_values("value")
    (_, low), (_, high) = (next(part.iterrows()) for part in (ordered.head(1), ordered.tail(1)))
    least, most = decimal(low["value"]), decimal(high["value"])
    if str(least) == str(most):
        where = f"in layer {low['layer']}" if len(means) == 1 else f"in all {len(means)} layers"
        return _entropy(low, f"Attention has an entropy of {least} {where}, where 1 is uniform", f"{least} {where}", (least,))
    return _entropy(
        low,
        f"Attention is most uniform in layer {high['layer']} (entropy {most}, where 1 is uniform) and most concentrated in layer "
        f"{low['layer']}, at {least}",
        f"{least} (layer {low['layer']}) to {most} (layer {high['layer']})",
        (least, most),
    )


def _entropy_of_layer(row: Any) -> Claim:
    value = decimal(row["value"])
    return _entropy(row, f"Attention in layer {row['layer']} has an entropy of {value}, where 1 is uniform", str(value), (value,))


def _entropy(row: Any, sentence: str, short: str, values: Any) -> Claim:
    heads = f"mean over {counted(row['heads'], 'head', 'heads')}"
    return Claim(sentence, short, values, of=(heads, counted(row["n"], "text", "texts")))
