"""Measured heads: what a folder of `conoscope measure` says of each head, to stand beside its effect."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pandas as pd

from conoscope.common.errors import OutputError
from conoscope.explaining.evaluation import fingerprint
from conoscope.results.result import Result
from conoscope.results.store import measured as described


def measured_heads(folder: str | Path, model: Mapping[str, Any], heads: Sequence[int]) -> pd.DataFrame:
    """A row for each layer and head of a measured folder; OutputError if it is of another model, or has no table of heads.

    `gates`: the gates' names. `norm`: Σ ‖α f(x)‖ over all keys; `norm_words` and `weight_words`: the same, and Σ α, over keys
    that are neither special tokens nor punctuation. `sim_key` and `sim_value`: SIM of the keys and values that the head reads,
    which several heads may share. `heads`: how many heads ask in each layer.
    """
    result = Result.load(folder)
    if result.provenance["model"].get("hash") != model["hash"]:
        raise OutputError(f"{folder} is of another model, {described(result.provenance)}; give a folder measured with this one")
    parts = [part for part in (_gates(result), _norms(result), _sims(result, heads)) if part is not None]
    if not parts:
        raise OutputError(f"{folder} has none of the tables gates, norms and sim; measure these, or leave it out")
    joined = parts[0]
    for part in parts[1:]:
        joined = joined.merge(part, on=["layer", "head"], how="outer")
    return joined


def elsewhere(folder: str | Path, provenance: Mapping[str, Any], size: int | None) -> list[str]:
    """A note where a folder was measured on other texts than the `size` that are ablated, or cut elsewhere; else nothing."""
    theirs = Result.load(folder).provenance
    pairs = [(_identity(said["corpus"]), said["options"].get("max_length")) for said in (provenance, theirs)]
    limits = [said["options"].get("limit") for said in (provenance, theirs)]
    counts = limits if size is None else [size, theirs["seen"]["examples"]]
    if pairs[0] == pairs[1] and counts[0] == counts[1]:
        return []
    return [f"heads were measured on other texts than those that are ablated, or on more or fewer: {described(theirs)}"]


def _identity(corpus: Mapping[str, Any]) -> tuple[Any, ...]:
    """What tells corpora apart: the digest of their texts, or the name of one that is made; and which of it."""
    return (corpus.get("fingerprint") or corpus.get("name"), *(corpus.get(key) for key in ("split", "seed", "options")))


def run_of(folder: str | Path) -> str:
    """A measured folder by its name and the hash of its provenance; OutputError if it is none."""
    Result.load(folder)
    return fingerprint(Path(folder) / "provenance.json")


def _gates(result: Result) -> pd.DataFrame | None:
    table = _table(result, "gates.names")
    return None if table is None else table.dropna(subset="value")[["layer", "head", "gates"]]


def _norms(result: Result) -> pd.DataFrame | None:
    table = _table(result, "norms")
    if table is None:
        return None
    table = table.dropna(subset="value")
    words = table[table["kind"] == "other"].set_index(["layer", "head"])
    columns = {
        "norm": table.groupby(["layer", "head"])["value"].sum(),
        "norm_words": words["value"],
        "weight_words": words["weight"],
    }
    return pd.DataFrame(columns).reset_index()


def _sims(result: Result, heads: Sequence[int]) -> pd.DataFrame | None:
    table = _table(result, "sim")
    if table is None:
        return None
    of = {f"sim_{site}": _of_readers(table[table["site"] == site], heads) for site in ("key", "value")}
    return pd.DataFrame(of).reset_index()


def _of_readers(shared: pd.DataFrame, heads: Sequence[int]) -> "pd.Series[float]":
    """The value of the key or value head that each head reads: of four heads and two of keys, the first two read the first."""
    by_layer = {layer: rows.set_index("head")["value"] for layer, rows in shared.groupby("layer")}
    rows = [
        (layer, head, float(values[(head - 1) * len(values) // count + 1]))
        for layer, count in enumerate(heads, 1)
        if (values := by_layer.get(layer)) is not None
        for head in range(1, count + 1)
    ]
    frame = pd.DataFrame(rows, columns=["layer", "head", "value"]).astype({"layer": int, "head": int, "value": float})
    return frame.set_index(["layer", "head"])["value"]


def _table(result: Result, name: str) -> pd.DataFrame | None:
    """The rows of heads of a table, by its name or the first that has it with options; None if it was not measured."""
    found = next((known for known in result if known == name or known.startswith(f"{name}:")), None)
    return None if found is None else result[found].dropna(subset=["head"])
