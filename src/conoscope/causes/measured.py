"""Measured heads: what a folder of `conoscope measure` says of each head, to stand beside its effect."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pandas as pd

from conoscope.common.errors import OutputError
from conoscope.explaining.evaluation import fingerprint
from conoscope.results.result import Result
from conoscope.results.store import measured as described


def measured_heads(folder: str | Path, model: Mapping[str, Any]) -> pd.DataFrame:
    """A row for each layer and head of a measured folder; OutputError if it is of another model, or has no table of heads.

    `gates`: the gates' names. `norm`: Σ ‖α f(x)‖ over all keys; `norm_words` and `weight_words`: the same, and Σ α, over keys
    that are neither special tokens nor punctuation. `sim_key` and `sim_value`: SIM of the head's keys and values.
    """
    result = Result.load(folder)
    if result.provenance["model"].get("hash") != model["hash"]:
        raise OutputError(f"{folder} is of another model, {described(result.provenance)}; give a folder measured with this one")
    parts = [part for part in (_gates(result), _norms(result), _sims(result)) if part is not None]
    if not parts:
        raise OutputError(f"{folder} has none of the tables gates, norms and sim; measure these, or leave it out")
    joined = parts[0]
    for part in parts[1:]:
        joined = joined.merge(part, on=["layer", "head"], how="outer")
    return joined


def run_of(folder: str | Path) -> str:
    """A measured folder by its name and the hash of its provenance; OutputError if it is none."""
    Result.load(folder)
    return fingerprint(Path(folder) / "provenance.json")


def _gates(result: Result) -> pd.DataFrame | None:
    table = _table(result, "gates.names")
    return None if table is None else table[["layer", "head", "gates"]]


def _norms(result: Result) -> pd.DataFrame | None:
    table = _table(result, "norms")
    if table is None:
        return None
    words = table[table["kind"] == "other"].set_index(["layer", "head"])
    columns = {
        "norm": table.groupby(["layer", "head"])["value"].sum(),
        "norm_words": words["value"],
        "weight_words": words["weight"],
    }
    return pd.DataFrame(columns).reset_index()


def _sims(result: Result) -> pd.DataFrame | None:
    table = _table(result, "sim")
    if table is None:
        return None
    of = {f"sim_{site}": table[table["site"] == site].set_index(["layer", "head"])["value"] for site in ("key", "value")}
    return pd.DataFrame(of).reset_index()


def _table(result: Result, name: str) -> pd.DataFrame | None:
    """The rows of heads of a table, by its name or the first that has it with options; None if it was not measured."""
    found = next((known for known in result if known == name or known.startswith(f"{name}:")), None)
    return None if found is None else result[found].dropna(subset=["head", "value"])
