"""Summaries of a record: SIM beside its controls, and how narrow the cones of each model are beside its accuracy."""

from collections.abc import Mapping
from typing import Any

import pandas as pd

from conoscope.studies.contrasts import words
from conoscope.studies.rows import STATISTICS, without

UNTRAINED = ".untrained"
"""What the name of a quantity ends with if it is of the model before training."""
POSITIONS = "sim.positions"
"""SIM of the sinusoidal positions of each text, without words."""
VALUES = "sim.value"
HEAD = ("models", "accuracy", "vectors", "SIM by layer", "before training", "positions alone")


def controls(record: Mapping[str, Any]) -> list[tuple[str, ...]]:
    """For each condition and site: accuracy, SIM layer by layer, the same before training, and that of positions alone."""
    means = [mean for mean in record["means"] if mean["quantity"].startswith(("sim.", "accuracy"))]
    found: list[tuple[str, ...]] = []
    for name in dict.fromkeys(map(_condition, means)):
        here = [mean for mean in means if _condition(mean) == name]
        accuracy, alone = (_series(here, quantity) for quantity in ("accuracy", POSITIONS))
        for mean in here:
            before = _series(here, mean["quantity"] + UNTRAINED)
            if before and mean["layer"] == min(other["layer"] for other in here if other["quantity"] == mean["quantity"]):
                site = mean["quantity"].removeprefix("sim.")
                vectors = "hidden states" if site == "hidden" else f"{site}s"
                found.append((name, accuracy, vectors, _series(here, mean["quantity"]), before, alone))
    return found


def _condition(mean: Mapping[str, Any]) -> str:
    return words(without(mean, (*STATISTICS, "quantity", "layer")))


def _series(means: list[Mapping[str, Any]], quantity: str) -> str:
    """The means of a quantity, layer by layer."""
    chosen = sorted((mean for mean in means if mean["quantity"] == quantity), key=lambda mean: mean.get("layer", 0))
    return " ".join(f"{mean['mean']:.2f}" for mean in chosen)


def cones(record: Mapping[str, Any]) -> pd.DataFrame:
    """One row a run: its condition, how narrow the cone of its last layer's values is, its accuracy, and the gate's.

    Without rows if the study has no conditions with a name, or no gate.
    """
    runs = {(run["keys"].get("condition"), run["keys"].get("layers"), str(run["seed"])): run for run in record["runs"]}
    found = []
    for mean in record["means"] if record["gate"] is not None else ():
        if "condition" in mean and mean["quantity"] == VALUES and mean["layer"] == mean["layers"]:
            for seed, value in mean["values"].items():
                run = runs[mean["condition"], mean["layers"], str(seed)]
                if "majority" in run:
                    here = {name: mean[name] for name in ("condition", "layers")}
                    gate = run["majority"] + record["gate"]
                    found.append({**here, "seed": int(seed), "accuracy": run["accuracy"], "value": value, "gate": gate})
    return pd.DataFrame(found)
