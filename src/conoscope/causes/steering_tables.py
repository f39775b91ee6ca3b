"""Tables of steering: how often the answer follows, by layer, classes, what is turned towards, and how far."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import permutations, product

import numpy as np
import pandas as pd
from jaxtyping import Bool, Float

from conoscope.causes.inference import Paired, exact_interval, paired
from conoscope.causes.judging import Rule
from conoscope.causes.steering import WAYS, Outcomes, Steps
from conoscope.results.store import TableInfo

INDEX = {
    "steering": TableInfo("How often the answer follows what its vector is turned towards, by layer and angle.", "causes", 6),
    "steering.excess": TableInfo("How much more often than with each control.", "causes", 7, -1.0, 1.0),
}
PAIRS = 5
"""Of at most so many classes every two have rows of their own."""


@dataclass(frozen=True)
class Asked:
    """What was asked for: layers, steps, the model's labels, what is known of each layer, resamples."""

    layers: Sequence[int]
    steps: Steps
    labels: Sequence[str]
    rules: Mapping[int, Rule]
    resamples: int

    def judged(self, layer: int, way: str) -> bool:
        """Whether a way to move the vector of a layer is a test."""
        rule = self.rules[layer]
        return not rule.linear and not (way == "length" and rule.normalised)


def tables_of(outcomes: Outcomes, asked: Asked) -> dict[str, pd.DataFrame]:
    """Both tables; rows without classes are over all of them."""
    rows: list[dict[str, object]] = []
    excess: list[dict[str, object]] = []
    for keys, chosen in _groups(outcomes, asked.labels):
        some = outcomes.of(chosen)
        rows += _rows(some, asked, keys)
        excess += _excess(some, asked, keys)
    return {"steering": _typed(rows), "steering.excess": _typed(excess)}


def _typed(rows: list[dict[str, object]]) -> pd.DataFrame:
    return pd.DataFrame(rows).astype({"layer": "Int64", "n": "Int64"})


def _groups(outcomes: Outcomes, labels: Sequence[str]) -> Iterator[tuple[dict[str, str | None], Bool[np.ndarray, " n"]]]:
    """All texts, and those of each pair of classes; of many classes those of each class that they are turned from."""
    yield {"from": None, "to": None}, np.ones(len(outcomes.source), bool)
    known = sorted({*outcomes.source.tolist(), *outcomes.target.tolist()})
    if len(known) > PAIRS:
        for source in known:
            if (outcomes.source == source).any():
                yield {"from": labels[source], "to": None}, outcomes.source == source
        return
    for source, target in permutations(known, 2):
        chosen = (outcomes.source == source) & (outcomes.target == target)
        if chosen.any():
            yield {"from": labels[source], "to": labels[target]}, chosen


def _rows(outcomes: Outcomes, asked: Asked, keys: Mapping[str, str | None]) -> list[dict[str, object]]:
    """A row for each layer, way and step: the shares of texts, with exact intervals, and the mean probability, resampled."""
    n, shape = len(outcomes.source), outcomes.flipped.shape[1:]
    probability = _by_cell(paired(outcomes.probability.reshape(n, -1), asked.resamples), shape)
    known = ~np.isnan(outcomes.flipped)
    counts, ones, others = known.sum(0), np.nansum(outcomes.flipped, 0), np.nansum(outcomes.changed, 0)
    low, high = exact_interval(ones, counts)
    with np.errstate(invalid="ignore", divide="ignore"):
        turned, shares = outcomes.angle.mean(0), (outcomes.angle / outcomes.aim[..., None]).mean(0)
        flipped, changed = ones / counts, others / counts
    rows: list[dict[str, object]] = []
    for (at, layer), (way, name), (step, (by, far)) in _cells(asked):
        cell = (at, way, step)
        rows.append(
            {
                "measure": "steer",
                "layer": layer,
                **keys,
                "direction": name,
                "by": by,
                "angle": far if by == "angle" else float(turned[at, step]),
                "share": far if by == "share" else float(shares[at, step]),
                "flipped": float(flipped[cell]),
                "low": float(low[cell]),
                "high": float(high[cell]),
                "changed": float(changed[cell]),
                **{column: float(values[cell]) for column, values in probability.items()},
                "n": int(counts[cell]),
                "judged": asked.judged(layer, name),
            }
        )
    return rows


def _by_cell(number: Paired, shape: tuple[int, ...]) -> dict[str, Float[np.ndarray, "l w s"]]:
    found = {"probability": number.value, "probability_low": number.low, "probability_high": number.high}
    return {name: values.reshape(shape) for name, values in found.items()}


def _excess(outcomes: Outcomes, asked: Asked, keys: Mapping[str, str | None]) -> list[dict[str, object]]:
    """A row for each layer, control and step: the share of flips minus the control's, text by text."""
    n, shape = len(outcomes.source), outcomes.flipped.shape[1:]
    number = paired((outcomes.flipped[:, :, :1] - outcomes.flipped).reshape(n, -1), asked.resamples)
    columns = {name: getattr(number, name).reshape(shape) for name in ("value", "sd", "low", "high", "n")}
    rows: list[dict[str, object]] = []
    for (at, layer), (way, name), (step, (by, far)) in _cells(asked):
        if way and far:
            found = {column: float(values[at, way, step]) for column, values in columns.items()}
            row = {"measure": "steer", "layer": layer, **keys, "control": name, "by": by, "far": far}
            rows.append({**row, **found, "judged": asked.judged(layer, name)})
    return rows


def _cells(asked: Asked) -> Iterator[tuple[tuple[int, int], tuple[int, str], tuple[int, tuple[str, float]]]]:
    return product(enumerate(asked.layers), enumerate(WAYS), enumerate(asked.steps.named))


SHOWN = (0.5, 1.0)
"""Shares of the way that are printed: all the way is often more than 90°, after which any direction leads elsewhere."""


def told(tables: Mapping[str, pd.DataFrame], which: str) -> str:
    """By layer the share of answers that follow the class's direction, half of the way and all of it, and each control."""
    frame = tables["steering"]
    whole = frame[frame["from"].isna() & frame["to"].isna() & (frame["by"] == "share") & frame["share"].isin(SHOWN)]
    lines = [
        f"share of answers that become the target, turned towards its direction (from {which}),",
        "and moved as far: in random directions, in those of shuffled labels, in length",
        "",
        f"{'layer':>5}{'of the way':>12}{'angle':>7}  {'class':26}{'random':>9}{'shuffled':>10}{'length':>9}",
    ]
    layers = [int(layer) for layer in whole["layer"].unique()]
    for layer, share in product(layers, SHOWN):
        by_way = whole[(whole["layer"] == layer) & (whole["share"] == share)].set_index("direction")
        numbers = {name: by_way[name].to_dict() for name in ("flipped", "low", "high", "angle")}
        marks = {way: "" if judged else "*" for way, judged in by_way["judged"].items()}
        low, high, angle = (numbers[name]["class"] for name in ("low", "high", "angle"))
        shown = {way: f"{share:.1%}" for way, share in numbers["flipped"].items()}
        interval = f"{shown['class']} [{low:.1%}, {high:.1%}]{marks['class']}"
        random, shuffled, length = (shown[way] + marks[way] for way in WAYS[1:])
        lines.append(f"{layer:>5}{share:>12.0%}{angle:>6.0f}°  {interval:26}{random:>9}{shuffled:>10}{length:>9}")
    if not whole["judged"].all():
        lines.append("* known before: the classifier is linear in the vector, or its length is normalised away; not judged")
    return "\n".join(lines)
