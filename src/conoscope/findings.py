"""Findings: what is worth knowing of a model, in sentences with numbers, computed from its tables."""

from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from math import isnan
from typing import TYPE_CHECKING

from conoscope.figures.base import NORMAL, Tables, name_of, runs_of, table_of
from conoscope.figures.marks import SITES
from conoscope.measures.gates import MIXED

if TYPE_CHECKING:
    import pandas as pd

MOST = 5
"""How many things are worth knowing."""
NARROW, WIDE = 0.8, 0.4
"""From which SIM on vectors point one way, and from which they gather at all."""
APART = 0.05
"""From which difference on weight and norm tell different stories."""
SHOWN_GATES = 3
ENOUGH = 8
"""Vectors for each coordinate that an effective rank needs; of fewer it reads low."""
CHANCE, HARDLY = 0.5, 0.1
"""The AUROC of chance, and from which correlation on one is worth a word."""
CONES = {site: SITES[site] for site in ("hidden", "key", "value")}
KINDS = {
    "cls": "the classifying token",
    "sep": "separators",
    "special": "other special tokens",
    "punctuation": "punctuation",
    "other": "words",
}


@dataclass(frozen=True)
class Finding:
    """One sentence with its number, and the figure that shows it."""

    text: str
    figure: str


@dataclass(frozen=True)
class Fact:
    """What is found of one run: a whole sentence, and the same in short, to stand beside other runs."""

    sentence: str
    short: str


Look = Callable[[Tables], Fact | None]


@dataclass(frozen=True)
class Question:
    """Where to look, what it is called beside other runs, and the figure that shows it."""

    table: str
    subject: str
    figure: str
    look: Look


def find(tables: Tables) -> list[Finding]:
    """The first five things that the tables tell; of several runs what each of them has."""
    every = {run for table in tables.values() if "run" in table for run in runs_of(table)}
    found: list[Finding] = []
    for question in QUESTIONS:
        if name_of(tables, question.table) is not None and len(found) < MOST:
            found += _found(question, table_of(tables, question.table), len(every) > 1)
    return found


def _found(question: Question, frame: "pd.DataFrame", several: bool) -> Iterator[Finding]:
    parts = {run: {question.table: frame[frame["run"] == run]} for run in runs_of(frame)}
    facts = {run: fact for run, part in parts.items() if (fact := question.look(part)) is not None}
    if len(facts) == 1 and not several:
        yield Finding(next(iter(facts.values())).sentence, question.figure)
    elif facts:
        said = "; ".join(f"{run} {fact.short}" for run, fact in facts.items())
        yield Finding(f"{question.subject}: {said}.", question.figure)


def _cone(tables: Tables) -> Fact | None:
    frame = table_of(tables, "sim")
    frame = frame[frame["site"].isin(CONES) & (frame["layer"] > 0)]
    means = frame.assign(heads=frame["head"].notna()).groupby(["site", "layer", "heads"], as_index=False)["value"].mean()
    if means.empty:
        return None
    # Whole vectors where there are, else the mean over heads.
    row = means[means["heads"] == means.groupby("site")["heads"].transform("min")].sort_values("value").iloc[-1]
    of, value = f"{CONES[row['site']]} of layer {row['layer']}", row["value"]
    if value < WIDE:
        said = f"Hidden states, keys and values lie in no narrow cone: their SIM is at most {value:.2f} ({of})."
    else:
        how = "point nearly one way" if value >= NARROW else "gather in a wide cone"
        said = f"{_capital(of)} {how}: SIM {value:.2f}, where 1 is one direction."
    return Fact(said, f"{value:.2f} ({of})")


def _classes(tables: Tables) -> Fact | None:
    frame = table_of(tables, "class_cones.nearest")
    frame = frame[(frame["site"] == "hidden") & (frame["layer"] == frame["layer"].max())]
    directions = {row["representative"]: row for _, row in frame[frame["control"] == "none"].iterrows()}
    row = directions.get("held_out", directions.get("mean"))
    if row is None:
        return None
    controls = dict(zip(frame["control"], frame["value"], strict=True))
    least = max(row["chance"], controls.get("shuffled", 0.0))
    tells = "tells" if row["value"] - NORMAL * row["sd"] / row["n"] ** 0.5 > least else "hardly tells"
    agrees = "" if isnan(row["agreement"]) else f" and agrees with the model on {_percent(row['agreement'])}"
    length = f", length alone {_percent(controls['norm'])}" if "norm" in controls else ""
    what = "the vector that stands for a text" if isnan(row["model"]) else "what the classifier reads"
    return Fact(
        f"The direction of {what} {tells} the class: the nearest class direction is right for "
        f"{_percent(row['value'])} of examples{agrees} (chance {_percent(row['chance'])}{length}).",
        f"{_percent(row['value'])} (chance {_percent(row['chance'])})",
    )


def _gates(tables: Tables) -> Fact | None:
    names = list(table_of(tables, "gates.names")["gates"])
    counted = Counter(gate for kinds in names for gate in kinds.split(" + ") if gate != MIXED)
    parts = [f"{count} {gate}" for gate, count in counted.most_common(SHOWN_GATES)]
    rest = counted.total() - sum(count for _, count in counted.most_common(SHOWN_GATES))
    parts += [f"{rest} other"] if rest else []
    said = f"{_listed(parts)} {'gate' if counted.total() == 1 else 'gates'}" if parts else "no gate of a known kind"
    mixed = f", {names.count(MIXED)} of no clear kind" if MIXED in names else ""
    heads = "one head" if len(names) == 1 else f"{len(names)} heads"
    return Fact(f"Among {heads} there {_are(counted)} {said}{mixed}.", f"{said}{mixed}, of {heads}")


def _are(counted: Counter[str]) -> str:
    return "is" if counted.total() < 2 else "are"


def _norms(tables: Tables) -> Fact | None:
    frame = table_of(tables, "norms")
    means = frame[frame["head"].isna()].groupby("kind", as_index=False)[["weight", "share"]].mean()
    if len(means) < 2:
        return None
    # Words are what the others leave.
    means = means[means["kind"] != "other"].assign(apart=(means["weight"] - means["share"]).abs())
    row = means.sort_values("apart").iloc[-1]
    kind = KINDS.get(row["kind"], f"tokens of kind {row['kind']}")
    short = f"{_percent(row['weight'], 0)} of the weight and {_percent(row['share'], 0)} of the norm go to {kind}"
    if row["apart"] < APART:
        return Fact(f"Weights and norms agree on what is mixed in: {short}, and no kind of token differs more.", short)
    return Fact(f"Weight is not what is mixed in: {short}.", short)


def _entropy(tables: Tables) -> Fact | None:
    frame = table_of(tables, "attention_entropy")
    means = frame[frame["row"] == "all"].groupby("layer")["value"].mean().sort_values()
    if means.empty:
        return None
    low, high = means.iloc[0], means.iloc[-1]
    if len(means) == 1:
        return Fact(f"Attention has an entropy of {low:.2f}, where 1 is even.", f"{low:.2f}")
    return Fact(
        f"Attention is most even in layer {means.index[-1]} (entropy {high:.2f}, where 1 is even) and sharpest in "
        f"layer {means.index[0]} ({low:.2f}).",
        f"{low:.2f} to {high:.2f}",
    )


def _rank(tables: Tables) -> Fact | None:
    frame = table_of(tables, "effective_rank")
    frame = frame[(frame["site"] == "hidden") & frame["head"].isna()]
    if frame.empty:
        return None
    row = frame.sort_values("layer").iloc[-1]
    if row["n"] < ENOUGH * row["width"]:
        return None
    used = f"{row['value']:.0f} of {row['width']}"
    return Fact(f"Hidden states of the last layer use {used} directions (effective rank).", used)


def _mixing(tables: Tables) -> Fact | None:
    frame = table_of(tables, "mixing")
    means = frame[frame["kind"] == "all"].groupby("method")["value"].mean().to_dict()
    value = next((means[method] for method in ("attnresln_n", "attnres_n", "attn_n") if method in means), None)
    if value is None:
        return None
    said = _percent(value, 0)
    return Fact(f"Of what leaves an attention block {said} comes from other tokens, the rest is the token itself.", said)


def _plausibility(tables: Tables) -> Fact | None:
    frame = table_of(tables, "plausibility")
    frame = frame[(frame["metric"] == "auroc") & (frame["average"] == "micro") & (frame["map"] != "random")]
    if frame.empty:
        return None
    row = frame.sort_values("value").iloc[-1]
    which = f"the best of {len(frame)} maps, {row['map']}," if len(frame) > 1 else f"{row['map']}"
    how = "agrees with" if row["low"] > CHANCE else "runs against" if row["high"] < CHANCE else "cannot be told from chance by"
    return Fact(
        f"{_capital(which)} {how} what people marked: AUROC {row['value']:.2f} ({row['low']:.2f} to {row['high']:.2f}; 0.5 is "
        "chance).",
        f"{row['value']:.2f} ({row['map']})",
    )


def _frequency(tables: Tables) -> Fact | None:
    frame = table_of(tables, "frequency")
    frame = frame[frame["layer"].isna() & (frame["what"] == "norm") & (frame["by"] == "corpus") & (frame["tokens"] == "all")]
    if frame.empty:
        return None
    value = frame["value"].iloc[0]
    which = (
        f"More is taken from {'rare' if value > 0 else 'frequent'} tokens"
        if abs(value) >= HARDLY
        else ("What is taken from a token hardly depends on how frequent it is")
    )
    said = f"{which}: frequency rank and norm, means over layers, have a correlation of {value:.2f}."
    return Fact(said, f"{value:.2f}")


def _capital(text: str) -> str:
    return text[:1].upper() + text[1:]


def _percent(share: float, digits: int = 1) -> str:
    return f"{100 * share:.{digits}f} %"


def _listed(parts: list[str]) -> str:
    return " and ".join((", ".join(parts[:-1]), parts[-1])) if len(parts) > 1 else parts[0]


QUESTIONS = (
    Question("sim", "The narrowest cone (SIM)", "sim", _cone),
    Question("class_cones.nearest", "Examples whose nearest class direction is right", "nearest-cone", _classes),
    Question("plausibility", "Nearest to what people marked (AUROC)", "plausibility", _plausibility),
    Question("gates.names", "Gates", "gates", _gates),
    Question("norms", "Weight against what is mixed in", "weights-and-norms", _norms),
    Question("attention_entropy", "Entropy of attention, by layer", "entropy", _entropy),
    Question("effective_rank", "Directions that hidden states of the last layer use", "effective-rank", _rank),
    Question("mixing", "What comes from other tokens", "mixing", _mixing),
    Question("frequency", "Correlation of frequency rank and norm", "frequency", _frequency),
)
"""What is asked first comes first."""
