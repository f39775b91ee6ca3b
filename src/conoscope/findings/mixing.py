"""Findings on mixing: weight against contribution, what comes from other tokens, and frequency."""

from typing import TYPE_CHECKING, Any

from conoscope.figures.marks import AXIS, cut
from conoscope.findings.claims import (
    Answer,
    Claim,
    Control,
    Facts,
    counted,
    decimal,
    in_common,
    largest,
    largest_of_runs,
    percent,
    rows_of,
)

if TYPE_CHECKING:
    import pandas as pd

APART = 0.05
"""From which difference on weight and norm tell different stories."""
HARDLY = 0.1
"""From which correlation on one is worth a word."""
KINDS = {
    "cls": "[CLS] or begin-of-text tokens",
    "sep": "[SEP] or end-of-text tokens",
    "special": "other special tokens",
    "punctuation": "punctuation marks",
}
METHODS = {
    "attnresln_n": "with the residual and the normalisation",
    "attnres_n": "with the residual",
    "attn_n": "without the residual",
}
"""Ways to count what is mixed in, the fullest first."""


def norms(frame: "pd.DataFrame", facts: Facts) -> Answer | None:
    """The kind of token whose share of the weight and of the norm differ most, the same kind in all runs that share one."""
    whole = frame[frame["head"].isna()]
    means = whole.groupby(["run", "kind"], as_index=False, sort=False).agg(
        weight=("weight", "mean"), share=("share", "mean"), layers=("layer", "nunique"), n=("n", "max")
    )
    # Words are what the others leave.
    means = means[(means["kind"] != "other") & (means.groupby("run")["kind"].transform("count") > 1)]
    if means.empty:
        return None
    means = means.assign(apart=(means["weight"] - means["share"]).abs())
    kinds = means.groupby("run")["kind"].transform("count")
    means = means.assign(kinds=kinds)
    shared = in_common(means, ["kind"])
    if shared.empty:
        chosen, of = largest_of_runs(means, "apart"), ", of different kinds of token"
    else:
        kind = largest(shared, "apart")["kind"]
        chosen, of = shared[shared["kind"] == kind], f": {_kind(kind)}, where they differ most in any run"
    return Answer(
        f"Attention weight and contribution{of}",
        {run: _norms(row) for run, row in rows_of(chosen).items()},
    )


def _norms(row: Any) -> Claim:
    weight, share, kind = percent(row["weight"], 0), percent(row["share"], 0), _kind(row["kind"])
    verdict = "disagree" if row["apart"] >= APART else "agree"
    most = "" if row["kinds"] == 1 else f", the largest difference of {row['kinds']} kinds of token besides words"
    return Claim(
        sentence=f"Attention weight and contribution {verdict}: {kind} get {weight} of the weight and {share} of the norm of "
        f"what is mixed in{most}",
        short=f"{weight} of the weight and {share} of the norm to {kind}, which {verdict}",
        values=(weight, share),
        verdict=verdict,
        of=(f"means over {counted(row['layers'], 'layer', 'layers')}", counted(row["n"], "text", "texts")),
    )


def _kind(kind: str) -> str:
    return KINDS.get(kind, f"tokens of kind {cut(kind, AXIS)}")


def mixing(frame: "pd.DataFrame", facts: Facts) -> Answer | None:
    """The mixing ratio by the fullest method that all runs have, with that of the attention weights beside it."""
    means = (
        frame[frame["kind"] == "all"]
        .groupby(["run", "method"], as_index=False, sort=False)
        .agg(value=("value", "mean"), layers=("layer", "nunique"), n=("n", "max"))
    )
    full = means[means["method"].isin(list(METHODS))]
    shared = in_common(full, ["method"])
    used = full if shared.empty else shared
    used = (
        used.sort_values("method", key=lambda names: names.map(list(METHODS).index), kind="stable")
        .drop_duplicates("run")
        .sort_index()
    )
    if used.empty:
        return None
    weights = {row["run"]: row["value"] for _, row in means[means["method"] == "attn_w"].iterrows()}
    methods = [METHODS[name] for name in used["method"].unique()]
    by = methods[0] if len(methods) == 1 else "counted differently in the runs"
    return Answer(
        f"Share of other tokens in the lengths that an attention block adds up, {by}",
        {run: _mixing(row, weights.get(run), len(methods) > 1) for run, row in rows_of(used).items()},
    )


def _mixing(row: Any, weight: float | None, several: bool) -> Claim:
    value, method = percent(row["value"], 0), METHODS[row["method"]]
    return Claim(
        sentence=f"Other tokens make up {value} of the lengths that an attention block adds up, {method}; the token itself is "
        "the rest",
        short=f"{value}{f', {method}' if several else ''}",
        values=(value,),
        controls=() if weight is None else (Control("by attention weights alone", percent(weight, 0)),),
        of=(f"mean over {counted(row['layers'], 'layer', 'layers')}", counted(row["n"], "token", "tokens")),
    )


def frequency(frame: "pd.DataFrame", facts: Facts) -> Answer | None:
    """The correlation of frequency rank and transformed length, with and without special tokens, and that with weight."""
    frame = frame[frame["layer"].isna() & (frame["by"] == "corpus")]
    found = {}
    for run in frame["run"].unique():
        rows = {(row["what"], row["tokens"]): row for _, row in frame[frame["run"] == run].iterrows()}
        if ("norm", "all") in rows:
            found[run] = _frequency(rows)
    return Answer("Spearman correlation of frequency rank (rare is high) and length ‖f(x)‖", found) if found else None


def _frequency(rows: dict[tuple[str, str], Any]) -> Claim:
    row, without = rows["norm", "all"], rows.get(("norm", "content"))
    value, verdict = decimal(row["value"]), _frequency_verdict(row, without)
    controls = [Control("without special tokens", decimal(without["value"]))] if without is not None else []
    if ("weight", "all") in rows:
        controls.append(Control("of rank and attention weight", decimal(rows["weight", "all"]["value"])))
    return Claim(
        sentence=f"Transformed vectors f(x) are {verdict}: the Spearman correlation of frequency rank and length, means over "
        f"layers, is {value}",
        short=f"{value}, {verdict}",
        values=(value,),
        verdict=verdict,
        controls=tuple(controls),
        of=(counted(row["n"], "token", "tokens"),),
    )


def _frequency_verdict(row: Any, without: Any) -> str:
    """By the weaker of the correlations with and without special tokens, which are frequent and often short."""
    values = [row["value"], *([] if without is None else [without["value"]])]
    if min(map(abs, values)) < HARDLY or min(values) * max(values) < 0:
        return "hardly longer or shorter for rare tokens"
    return f"{'longer' if row['value'] > 0 else 'shorter'} for rare tokens"
