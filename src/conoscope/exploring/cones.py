"""The verbs `cones` and `place`: cones of the classes, and a text, in the bases that `class_cones` saved."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, cast

import numpy as np
import pandas as pd
import torch
from jaxtyping import Float
from torch import Tensor

from conoscope.capture.recording import pooled
from conoscope.common.pooling import pool_identity
from conoscope.exploring.inputs import name_in, whole
from conoscope.exploring.left import Left
from conoscope.exploring.opening import OpenResult
from conoscope.exploring.replies import Handler, Reply, Turn
from conoscope.exploring.requests import RequestError
from conoscope.exploring.shelf import Shelf, table_of
from conoscope.measures.class_cones.directions import directed
from conoscope.measures.class_cones.shown import angle_between

if TYPE_CHECKING:
    from conoscope.exploring.session import Session

POINTS, MOST = 2000, 10_000
"""How many points a reply holds, if it is not said and at most."""
SITES = ("hidden", "key", "value")
PLAIN = ("value", "second", "third")
CENTRED = ("centred", "centred_second", "centred_third")
QUANTILE = 0.9


def cones(session: "Session", params: Mapping[str, Any], turn: Turn) -> Reply:
    """Directions and quantile angles of the classes, and sampled examples, by site and layer, from a result's tables."""
    shelf = session.shelf
    one, centred = shelf.result(params), bool(params.get("centred"))
    count = whole(params.get("points", POINTS), "points", 0, MOST)
    axes = table_of(one, "class_cones.axes")
    classes = _classes(one)
    sites = [site for site in SITES if (axes["site"] == site).any()]
    layers = {site: sorted(axes[axes["site"] == site]["layer"].unique().tolist()) for site in sites}
    explained, column = table_or_none(one, "class_cones.explained"), "centred" if centred else "value"
    shares: dict[str, Any] = {}
    angles: dict[str, Any] = {}
    arrays: dict[str, np.ndarray] = {}
    for site in sites:
        place = {layer: row for row, layer in enumerate(layers[site])}
        arrays |= _of_classes(one, site, place, classes, centred)
        shares[site] = _shares(explained, site, place, column)
        angles[site] = _between(one, site, place, classes, centred)
    points, coordinates = _points(shelf, one, layers, classes, (centred, count))
    counts = axes[axes["site"] == sites[0]].groupby("class")["n"].max()
    said = {
        "sites": sites,
        "layers": layers,
        "classes": classes,
        "explained": shares,
        "angles": angles,
        "quantile": QUANTILE,
        "n": [int(counts.get(name, 0)) for name in classes],
        "points": points,
        "filling": shelf.filling.state,
    }
    return Reply(said, {**arrays, **coordinates})


def table_or_none(one: OpenResult, name: str) -> pd.DataFrame | None:
    """A table that may be missing because it would have been empty."""
    try:
        return table_of(one, name)
    except RequestError:
        return None


def _classes(one: OpenResult) -> list[str]:
    """The names of the classes by their number in the sums."""
    said = one.result.provenance
    return [str(name) for name in said["model"].get("labels") or said["corpus"]["labels"]]


Place = Mapping[int, int]
"""The row of each layer in arrays."""


def _of_classes(one: OpenResult, site: str, place: Place, classes: Sequence[str], centred: bool) -> dict[str, np.ndarray]:
    """The classes' directions along the axes, and the quantile angles of their own examples."""
    number = {name: at for at, name in enumerate(classes)}
    axis = np.full((len(place), len(classes), 3), np.nan, dtype=np.float32)
    angle = np.full((len(place), len(classes)), np.nan, dtype=np.float32)
    axes = _rows(table_of(one, "class_cones.axes"), site)
    axis[_at(axes["layer"], place), _at(axes["class"], number)] = _floats(axes, CENTRED if centred else PLAIN)
    angles = table_or_none(one, "class_cones.angles")
    if angles is not None:
        own = _rows(angles, site)
        (column,) = _floats(own, ["centred_q90" if centred else "q90"]).T
        angle[_at(own["layer"], place), _at(own["class"], number)] = column
    return {f"axis:{site}": axis, f"angle:{site}": angle}


def _rows(frame: pd.DataFrame, site: str) -> pd.DataFrame:
    return frame[frame["site"] == site]


def _at(column: "pd.Series[Any]", place: Mapping[Any, int]) -> np.ndarray:
    found = column.map(place)
    if found.isna().any():
        raise RequestError("the tables of this result name layers or classes that its axes have not; measure again")
    return found.to_numpy(int)


def _floats(frame: pd.DataFrame, columns: Sequence[str]) -> Float[np.ndarray, "n k"]:
    return frame[list(columns)].to_numpy(np.float32, na_value=np.nan)


def _shares(frame: pd.DataFrame | None, site: str, place: Place, column: str) -> list[list[float]]:
    found = np.full((len(place), 3), np.nan)
    if frame is not None:
        own = _rows(frame, site)
        found[_at(own["layer"], place), own["axis"].to_numpy(int) - 1] = own[column].to_numpy(float, na_value=np.nan)
    shares: list[list[float]] = found.tolist()
    return shares


def _between(one: OpenResult, site: str, place: Place, classes: Sequence[str], centred: bool) -> list[list[list[float]]]:
    """The true angles between the classes' mean directions in degrees, from their cosines."""
    number = {name: at for at, name in enumerate(classes)}
    axes = _rows(table_of(one, "class_cones.axes"), site)
    found = np.full((len(place), len(classes), len(classes)), np.nan)
    layer, own = _at(axes["layer"], place), _at(axes["class"], number)
    found[layer, own, own] = 1.0
    between = table_or_none(one, "class_cones.between")
    if between is not None:
        rows = between[(between["site"] == site) & (between["representative"] == "mean")]
        at = _at(rows["layer"], place), _at(rows["class"], number), _at(rows["other_class"], number)
        found[at] = found[at[0], at[2], at[1]] = rows["value"].to_numpy(float, na_value=np.nan)
    cosines = np.stack([_centred(layer) for layer in found]) if centred else found
    degrees: list[list[list[float]]] = np.degrees(np.arccos(cosines.clip(-1, 1))).tolist()
    return degrees


def _centred(cosines: Float[np.ndarray, "c c"]) -> Float[np.ndarray, "c c"]:
    """The cosines of unit vectors around their mean, from theirs; NaN for a class that has none, or that is the mean."""
    known = ~np.isnan(np.diagonal(cosines))
    gram = cosines[np.ix_(known, known)]
    around = gram - gram.mean(0) - gram.mean(1)[:, None] + gram.mean()
    lengths = np.sqrt(np.diagonal(around).clip(0))
    found = np.full_like(cosines, np.nan)
    with np.errstate(invalid="ignore", divide="ignore"):
        apart = np.where(lengths > 1e-6, lengths, np.nan)
        found[np.ix_(known, known)] = around / apart / apart[:, None]
    return found


def _points(
    shelf: Shelf, one: OpenResult, layers: Mapping[str, Sequence[int]], classes: Sequence[str], asked: tuple[bool, int]
) -> tuple[list[dict[str, Any]], dict[str, np.ndarray]]:
    """What is known of the sampled examples, and their coordinates and lengths by site; the same examples in all layers."""
    centred, most = asked
    frame = table_or_none(one, "class_cones.points")
    if frame is None:
        return [], {}
    frame = frame.assign(copy=frame.groupby(["site", "layer", "example"]).cumcount())
    chosen = frame.drop_duplicates(["example", "copy"]).head(most)
    order = {key: number for number, key in enumerate(zip(chosen["example"], chosen["copy"], strict=True))}
    number = {name: at for at, name in enumerate(classes)}
    known = [
        {
            "number": None if shelf.texts is None else shelf.texts.number_of(str(name)),
            "id": str(name),
            "label": number.get(str(gold)),
            "predicted": number.get(str(predicted)),
        }
        for name, gold, predicted in zip(chosen["example"], chosen["gold"], chosen["predicted"], strict=True)
    ]
    arrays: dict[str, np.ndarray] = {}
    for site in layers:
        rows = _rows(frame, site)
        at = np.array([order.get(key, -1) for key in zip(rows["example"], rows["copy"], strict=True)], dtype=int)
        rows, at = rows[at >= 0], at[at >= 0]
        layer = _at(rows["layer"], {number: row for row, number in enumerate(layers[site])})
        coordinates = np.full((len(layers[site]), len(order), 3), np.nan, dtype=np.float32)
        lengths = np.full((len(layers[site]), len(order)), np.nan, dtype=np.float32)
        coordinates[layer, at] = _floats(rows, CENTRED if centred else PLAIN)
        lengths[layer, at] = _floats(rows, ["length"])[:, 0]
        arrays |= {f"point:{site}": coordinates, f"length:{site}": lengths}
    return known, arrays


def place(session: "Session", params: Mapping[str, Any], turn: Turn) -> Reply:
    """Where a text and its tokens lie in a result's bases, with their true angles to the directions of the classes."""
    shelf, given = session.shelf, session.read(params)
    one, centred = shelf.result(params), bool(params.get("centred"))
    site = name_in(params.get("site", "hidden"), "site", SITES)
    if one.model != given.model:
        raise RequestError(f"{one.name} is of another model; a text has its place among the vectors of its own")
    left = session.left(given, turn)
    directions = shelf.directions(whole(params.get("result", 0), "result", 0, len(shelf.results) - 1)).get(site, {})
    bases = _rows(table_of(one, "class_cones.bases"), site)
    layers = sorted(int(layer) for layer in bases["layer"].unique())
    pool = pool_identity(one.result.provenance)
    found: list[Placed] = []
    for layer in layers:
        turn.check()
        vectors = vectors_of(left, site, layer, pool)
        found.append(_placed(vectors, len(left.words), bases[bases["layer"] == layer], (directions.get(layer), centred)))
    if not found:
        raise RequestError(f"{one.name} has no bases of {site}; choose another site")
    names = ("coordinates", "angles", "lengths")
    stacked = {name: np.stack([layer[at] for layer in found]).astype(np.float32) for at, name in enumerate(names)}
    # The first row of each is the text's own vector, the others are its tokens'.
    arrays = {
        "text": stacked["coordinates"][:, 0],
        "tokens": stacked["coordinates"][:, 1:],
        "text_angles": stacked["angles"][:, 0],
        "token_angles": stacked["angles"][:, 1:],
        "text_length": stacked["lengths"][:, 0],
        "token_lengths": stacked["lengths"][:, 1:],
    }
    return Reply({"layers": layers}, arrays)


Placed = tuple[Float[np.ndarray, "n 3"], Float[np.ndarray, "n c"], Float[np.ndarray, " n"]]


def _placed(
    x: Float[Tensor, "n d"] | None, tokens: int, basis: pd.DataFrame, how: tuple[Float[Tensor, "c d"] | None, bool]
) -> Placed:
    """Coordinates, angles in degrees and lengths of the text's vector and of its tokens', in one layer."""
    directions, centred = how
    axes = torch.from_numpy(
        basis.sort_values("dimension")[list(CENTRED if centred else PLAIN)].to_numpy(float, na_value=np.nan).copy()
    )
    if x is None or directions is None or x.shape[1] != len(axes):
        count, classes = tokens + 1, 0 if directions is None else len(directions)
        return np.full((count, 3), np.nan), np.full((count, classes), np.nan), np.full(count, np.nan)
    lengths = torch.linalg.vector_norm(x, dim=-1)
    units, towards = (x / lengths[:, None]).where(lengths[:, None] > 0, torch.nan), directions
    if centred:
        centre = directions[~directions.isnan().any(-1)].mean(0)
        units, towards = directed(units - centre), directed(directions - centre)
    angles = angle_between(units[:, None], towards[None])
    return (units @ axes).numpy(), angles.numpy(), lengths.numpy()


def vectors_of(left: Left, site: str, layer: int, pool: str | None = None) -> Float[Tensor, "n d"] | None:
    """The vector that stands for a text, and those of its tokens, with all heads side by side; None where a layer has none.

    `pool`: the vector that a result read, if the model's own is another.
    """
    trace = next((trace for trace in left.traces if trace.layer == layer), None)
    x = None if trace is None else trace.whole(site)
    if x is None:
        return None
    other = pool if pool in ("first", "last", "mean") and pool != left.warm.pool.vector else None
    whole_text = left.pooled(x) if other is None else pooled(x, left.batch, cast(Any, other), asked=True)[0]
    return torch.cat((whole_text[None], x[0])).double().cpu()


VERBS: dict[str, Handler] = {"cones": cones, "place": place}
