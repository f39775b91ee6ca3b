"""The verbs `grid`, `scores`, `mean_map` and `table`: what a result's tables say of heads, and the tables themselves."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from jaxtyping import Float

from conoscope.common.keywords import nearest
from conoscope.exploring.inputs import name_in, whole
from conoscope.exploring.opening import OpenResult
from conoscope.exploring.replies import Handler, Reply, Turn
from conoscope.exploring.requests import LARGEST, RequestError
from conoscope.exploring.shelf import table_of
from conoscope.results.store import TableInfo

if TYPE_CHECKING:
    from conoscope.exploring.session import Session

SIMS = {"sim_key": "key", "sim_value": "value", "sim_context": "context"}
WHATS = ("entropy", *SIMS, "ablation", "gate")
ROWS = 1000
"""The most rows of a table that a reply holds."""
CELLS = 20_000
"""The most cells."""
HEADS = 1 << 16
"""The most heads, or cells of a map, that a table may name: what is larger no model has."""
EFFECTS = ("logit_predicted", "logit_true")


def grid(session: "Session", params: Mapping[str, Any], turn: Turn) -> Reply:
    """A number for each layer and head, with its interval: entropy, SIM, the effect of ablation, or gates."""
    shelf = session.shelf
    one, what = shelf.result(params), name_in(params.get("what", "entropy"), "number of heads", WHATS)
    if what == "gate":
        return _gates(one)
    if what == "ablation":
        one = _ablated(one, shelf.results)
    frame, about, unit = _effects(one) if what == "ablation" else _means(one, what)
    return Reply({"gates": None, "n": _most(frame["n"]), "about": about, "unit": unit}, _arrays(frame, one))


def _means(one: OpenResult, what: str) -> tuple[pd.DataFrame, str, str]:
    """The rows of heads of entropy or SIM, with an interval of twice the standard error, what they are, and their unit."""
    name = "attention_entropy" if what == "entropy" else "sim"
    if what == "sim_context":
        raise RequestError("SIM of what heads pass on is not measured over a corpus; it is shown for single texts")
    frame = table_of(one, name)
    frame = frame[frame["row"] == "all"] if what == "entropy" else frame[frame["site"] == SIMS[what]]
    frame = frame.dropna(subset="head")
    if frame.empty:
        raise RequestError(f"{one.name} has no {what} of heads: the model has no such vectors that can be followed")
    margin = 2 * frame["sd"].astype(float) / frame["n"].astype(float) ** 0.5
    value = frame["value"].astype(float)
    about = f"{_info(one, name).summary} Interval: 2 standard errors."
    return frame.assign(low=value - margin, high=value + margin), about, "share" if what == "entropy" else "cosine"


def _ablated(one: OpenResult, results: Sequence[OpenResult]) -> OpenResult:
    """The result itself or another one of the same model, whichever has effects of ablation."""
    alike = [other for other in results if other.model is not None and other.model == one.model]
    found = next((each for each in (one, *alike) if "ablation" in each.result.tables), None)
    if found is None:
        raise RequestError(f"no ablation of {one.name} is open; type conoscope ablate MODEL CORPUS -o OUT, and open OUT too")
    return found


def _effects(one: OpenResult) -> tuple[pd.DataFrame, str, str]:
    """The effects of ablating each head, in the first way in which they were ablated."""
    frame = table_of(one, "ablation")
    what = next((name for name in EFFECTS if (frame["what"] == name).any()), str(frame["what"].iloc[0]))
    how = str(frame["how"].iloc[0])
    chosen = frame[(frame["what"] == what) & (frame["how"] == how)].dropna(subset="head")
    about = f"The mean change of {what.replace('_', ' ')} without the head, its vectors set to {how}. 95 % intervals over texts."
    return chosen, about, "logit" if what.startswith("logit") else what


def _gates(one: OpenResult) -> Reply:
    """The names of gates, and the share of examples whose own maps have the same names."""
    frame = table_of(one, "gates.names").dropna(subset="head")
    layers, heads = _size(frame)
    names: list[list[str | None]] = [[None] * heads for _ in range(layers)]
    for layer, head, gates in zip(frame["layer"], frame["head"], frame["gates"], strict=True):
        names[int(layer) - 1][int(head) - 1] = str(gates)
    arrays = _arrays(frame.assign(low=np.nan, high=np.nan), one)
    return Reply({"gates": names, "n": _most(frame["n"]), "about": _info(one, "gates.names").summary, "unit": "share"}, arrays)


def _size(frame: pd.DataFrame, rows: str = "layer", columns: str = "head") -> tuple[int, int]:
    """How many layers and heads a table names; RequestError if there are none, or more than a model has."""
    if frame.empty or int(frame[[rows, columns]].min().min()) < 1:
        raise RequestError(f"the table has no {rows} or {columns} from 1 on; measure again")
    return _bounded(int(frame[rows].max()), int(frame[columns].max()))


def _bounded(rows: int, columns: int) -> tuple[int, int]:
    if rows * columns > HEADS:
        raise RequestError(f"the table names heads or cells up to {rows:,}.{columns:,}, which no model has; measure again")
    return rows, columns


def _most(counts: "pd.Series[int]") -> int:
    return int(counts.max()) if counts.notna().any() else 0


def _arrays(frame: pd.DataFrame, one: OpenResult) -> dict[str, np.ndarray]:
    """Value, low and high by layer and head, as many heads as ask: several may share one of keys and values."""
    frame = frame[frame["layer"] > 0]
    layers, heads = _size(frame)
    asking = _asking(one, layers, heads)
    return {name: _by_head(frame, name, asking) for name in ("value", "low", "high")}


def _asking(one: OpenResult, layers: int, heads: int) -> list[int]:
    """How many heads ask in each layer, by the table of entropy; as many as there are where it was not measured."""
    entropy = next((name for name in one.result.tables if name.partition(":")[0] == "attention_entropy"), None)
    if entropy is None:
        return [heads] * layers
    counts = one.result.tables[entropy].dropna(subset="head").groupby("layer")["head"].max()
    _bounded(layers, int(counts.max()))
    return [int(counts.get(layer, heads)) for layer in range(1, layers + 1)]


def _by_head(frame: pd.DataFrame, name: str, asking: list[int]) -> Float[np.ndarray, "l h"]:
    found = np.full((len(asking), max(asking)), np.nan, dtype=np.float32)
    for number, count in enumerate(asking, 1):
        values = frame[frame["layer"] == number].sort_values("head")[name].to_numpy(float, na_value=np.nan)
        if len(values):
            # Of four heads and two of keys, the first two read the first.
            found[number - 1, :count] = values[np.arange(count) * len(values) // count]
    return found


def scores(session: "Session", params: Mapping[str, Any], turn: Turn) -> Reply:
    """The mean scores of each head's maps, from which gates are named; empty if they were not measured."""
    one = session.shelf.result(params)
    if not any(name.partition(":")[0] == "gates" for name in one.result.tables):
        return Reply({"about": ""})
    frame = table_of(one, "gates").dropna(subset="head")
    layers, heads = _size(frame)
    arrays = {str(name): _by_head(rows, "value", [heads] * layers) for name, rows in frame.groupby("score")}
    return Reply({"about": _info(one, "gates").summary}, arrays)


def mean_map(session: "Session", params: Mapping[str, Any], turn: Turn) -> Reply:
    """The mean attention map of one head over the corpus, on a grid of places relative to the text."""
    one = session.shelf.result(params)
    frame = table_of(one, "gates.maps").dropna(subset="head")
    layers, heads = _size(frame)
    layer, head = whole(params.get("layer"), "the layer", 1, layers), whole(params.get("head"), "the head", 1, heads)
    chosen = frame[(frame["layer"] == layer) & (frame["head"] == head)]
    if chosen.empty:
        raise RequestError(f"{one.name} has no map of head {layer}.{head}; choose another head")
    size = max(_size(frame, "query", "key"))
    found = np.full((size, size), np.nan, dtype=np.float32)
    found[chosen["query"].to_numpy(int) - 1, chosen["key"].to_numpy(int) - 1] = chosen["value"].to_numpy(float, na_value=np.nan)
    return Reply({"about": _info(one, "gates.maps").summary, "n": _most(chosen["n"])}, {"map": found})


def table(session: "Session", params: Mapping[str, Any], turn: Turn) -> Reply:
    """The first rows of a table, of those that have some values in some columns."""
    one = session.shelf.result(params)
    name, where = params.get("name"), params.get("where") or {}
    if not isinstance(name, str) or not isinstance(where, dict):
        raise RequestError("a table is asked for by its name, and where is an object of columns and values")
    frame = table_of(one, name)
    for column, value in where.items():
        if column not in frame:
            raise RequestError(f"{name} has no column {column!r}{nearest(column, map(str, frame.columns))}")
        if not isinstance(value, str | int | float | None) or (isinstance(value, int) and abs(value) > LARGEST):
            raise RequestError(f"{column} is no text nor number that a table holds; give one, or null for rows without one")
        frame = frame[frame[column].isna() if value is None else frame[column] == value]
    limit = whole(params.get("limit", 200), "limit", 0, ROWS)
    shown = frame.head(min(limit, max(1, CELLS // max(1, len(frame.columns)))))
    info = _info(one, name)
    columns = [str(column) for column in shown.columns]
    rows = [[_cell(value) for value in row] for row in shown.itertuples(index=False, name=None)]
    return Reply({"columns": columns, "rows": rows, "total": len(frame), "question": info.question, "about": info.summary})


def _cell(value: Any) -> Any:
    return None if value is pd.NA else value.item() if isinstance(value, np.generic) else value


def _info(one: OpenResult, name: str) -> TableInfo:
    return next((info for known, info in one.result.index.items() if known.partition(":")[0] == name), TableInfo())


VERBS: dict[str, Handler] = {"grid": grid, "scores": scores, "mean_map": mean_map, "table": table}
