"""The tables that the explorer draws cones from: bases of three axes, and classes and examples in them."""

from collections.abc import Iterator, Mapping, Sequence
from types import MappingProxyType
from weakref import WeakKeyDictionary

import torch
from jaxtyping import Float
from torch import Tensor
from torch.nn.functional import normalize

from conoscope.measures.base import Part, Reading, also_reads
from conoscope.measures.class_cones.bases import AXES, Basis, bases_of, in_three
from conoscope.measures.class_cones.cosines import SITES, ByLayer, cones_of
from conoscope.measures.class_cones.directions import Cones, directed
from conoscope.measures.needs import Need
from conoscope.sums.samples import Sample
from conoscope.sums.statistics import Covariance, Directions

LEVELS = {"q50": 0.5, "q90": 0.9, "q95": 0.95}
"""The quantiles of angles, with their levels."""
POINTS = 1000
"""How many sampled examples are points."""
PLACES = ("value", "second", "third")
NONE: ByLayer = MappingProxyType({})
_BASES: WeakKeyDictionary[Directions, tuple[dict[int, Basis], dict[int, Basis]]] = WeakKeyDictionary()
"""The bases of sums that are still in memory: four tables need them."""


def parts(vectors: str) -> Iterator[Part]:
    """The sums and samples of each site, and the few examples that are sampled in every layer."""
    for site in SITES:
        needs = {
            "sums": Need.of(Directions, "class_directions", site=site),
            "spread": Need.of(Covariance, "class_units", site=site),
            "sample": Need.of(Sample, "class_vectors", site=site, layers=vectors),
        }
        few = {"few": Need.of(Sample, "few_class_vectors", site=site)} if site == "hidden" else {}
        yield Part({"site": site}, False, {**needs, **few})


def _cones(sums: ByLayer, spread: ByLayer, sample: ByLayer, few: ByLayer) -> dict[int, Cones]:
    """The cones of each layer with its larger sample, or with the few examples if there is no other."""
    return dict(cones_of(sums, spread, NONE, {**few, **sample}))


def _both(cones: Mapping[int, Cones]) -> Iterator[tuple[int, Basis, Basis | None]]:
    """Each layer that has directions of classes, its basis, and its basis around the mean of these directions, if it has one."""
    key = cones[max(cones)].sums
    if key not in _BASES:
        _BASES[key] = bases_of(cones, False), bases_of(cones, True)
    plain, centred = _BASES[key]
    yield from ((layer, basis, centred.get(layer)) for layer, basis in plain.items())


def _columns(prefix: str, coordinates: Float[Tensor, "n 3"]) -> dict[str, Tensor]:
    return dict(zip((prefix, *(f"{prefix}_{name}" for name in PLACES[1:])), coordinates.unbind(-1), strict=True))


def _reading(
    plain: Float[Tensor, "n 3"], centred: Float[Tensor, "n 3"], n: Tensor, more: Mapping[str, Tensor | Sequence[str]], layer: int
) -> Reading:
    """Rows of coordinates: along the first axis in `value`, then `second` and `third`, and the same around the centre."""
    first, second, third = plain.unbind(-1)
    columns = {"second": second, "third": third, **_columns("centred", centred), **more}
    count = n.where(~first.isnan(), 0)
    return Reading(first, torch.full_like(first, torch.nan), count, columns).with_keys(layer=layer)


@also_reads("class_cones.bases", parts, within=(-1, 1), across=True, explored=True)
def bases(sums: ByLayer, spread: ByLayer = NONE, sample: ByLayer = NONE, few: ByLayer = NONE) -> Iterator[Reading]:
    """The axes of the explorer's cones: one row for each `dimension` of a layer's vectors, its coordinate of each of three axes.

    `value`, `second` and `third`: orthonormal axes that hold the classes' mean directions r, or the most of them; if these span
    fewer than three dimensions, the principal axes of the examples across them follow. `centred` and so on: the same for r - m,
    with m the mean of r over classes. Layers are aligned by orthogonal Procrustes. `n`: examples.
    """
    cones = _cones(sums, spread, sample, few)
    for layer, plain, centred in _both(cones):
        width = len(plain.axes)
        around = in_three(plain.axes[:, :0]) if centred is None else in_three(centred.axes)
        n = cones[layer].directions.count.sum().expand(width)
        yield _reading(in_three(plain.axes), around, n, {"dimension": torch.arange(1, width + 1)}, layer)


@also_reads("class_cones.explained", parts, within=(0, 1), across=True, explored=True)
def explained(sums: ByLayer, spread: ByLayer = NONE, sample: ByLayer = NONE, few: ByLayer = NONE) -> Iterator[Reading]:
    """The share of the variance of the examples' unit vectors along each axis; `centred`: along each of the centred axes."""
    cones = _cones(sums, spread, sample, few)
    for layer, plain, centred in _both(cones):
        shares, around = (in_three(basis.shares if basis else torch.zeros(0)).tolist() for basis in (plain, centred))
        for axis in range(AXES):
            count = cones[layer].directions.count.sum()
            yield Reading.of_one(shares[axis], n=count, centred=around[axis]).with_keys(layer=layer, axis=axis + 1)


@also_reads("class_cones.axes", parts, within=(-1, 1), across=True, explored=True)
def axes(sums: ByLayer, spread: ByLayer = NONE, sample: ByLayer = NONE, few: ByLayer = NONE) -> Iterator[Reading]:
    """The mean direction of each class along the axes of `class_cones.bases`; `centred`, that of r - m along its centred axes.

    Directions are unit vectors: what their coordinates lack in length lies outside of the axes.
    """
    cones = _cones(sums, spread, sample, few)
    for layer, plain, centred in _both(cones):
        coordinates, around = _of_classes(plain, cones[layer].classes), _of_classes(centred, cones[layer].classes)
        reading = _reading(coordinates, around, cones[layer].directions.count, {}, layer)
        for number in plain.known.tolist():
            here = slice(number, number + 1)
            more = {name: column[here] for name, column in reading.more.items()}
            keys = {**reading.keys, "class": number}
            yield Reading(reading.value[here], reading.sd[here], reading.n[here], more, keys)


def _of_classes(basis: Basis | None, classes: int) -> Float[Tensor, "c 3"]:
    found = torch.full((classes, AXES), torch.nan, dtype=torch.float64)
    if basis is not None:
        found[basis.known] = in_three(basis.coordinates)
    return found


@also_reads("class_cones.angles", parts, within=(0, 180), across=True, explored=True)
def angles(sums: ByLayer, spread: ByLayer = NONE, sample: ByLayer = NONE, few: ByLayer = NONE) -> Iterator[Reading]:
    """The angle in degrees between each sampled example and the mean direction of its own class: mean, spread and quantiles.

    Each example is left out of its class's mean. `q50`, `q90`, `q95`: the angle within which so many of them lie; `centred_q50`
    and so on: between u - m and r - m. A layer without a sample has no angles.
    """
    for layer, cones in _cones(sums, spread, sample, few).items():
        plain, centred = own_angles(cones)
        for number in (~cones.of_kind("mean").isnan().any(-1)).nonzero()[:, 0].tolist():
            own, around = _of_class(cones, plain, number), _of_class(cones, centred, number)
            spread_of = own.std() if len(own) > 1 else torch.nan
            more = {**_quantiles("", own), **_quantiles("centred_", around)}
            mean = own.mean() if len(own) else torch.nan
            yield Reading.of_one(mean, spread_of, len(own), **more).with_keys(layer=layer, **{"class": number})


def _of_class(cones: Cones, angles: Float[Tensor, " n"], number: int) -> Float[Tensor, " m"]:
    """The angles of a class's sampled examples, of those that have one."""
    own = angles if cones.examples is None else angles[cones.examples.gold == number]
    return own[~own.isnan()]


def _quantiles(prefix: str, found: Float[Tensor, " n"]) -> dict[str, float]:
    return {f"{prefix}{name}": float(found.quantile(level)) if len(found) else torch.nan for name, level in LEVELS.items()}


def own_angles(cones: Cones) -> tuple[Float[Tensor, " n"], Float[Tensor, " n"]]:
    """The angle in degrees of each sampled example with the mean direction of its class, without itself in it; plain, and around
    the mean of all classes' directions. NaN for an example that has none; empty without a sample."""
    if cones.examples is None:
        nothing = torch.zeros(0, dtype=torch.float64)
        return nothing, nothing
    units, gold, every = cones.examples.units, cones.examples.gold, cones.of_kind("mean")
    without = directed(cones.directions.units[gold] - units)  # of a class of one example nothing is left but rounding
    known = every[~every.isnan().any(-1)]
    centres = known.mean(0) + (without - every[gold]) / len(known)
    return angle_between(units, without), angle_between(directed(units - centres), directed(without - centres))


def angle_between(one: Float[Tensor, "*n d"], other: Float[Tensor, "*n d"]) -> Float[Tensor, "*n"]:
    """The angle between vectors in degrees: 2 atan(‖a - b‖ / ‖a + b‖) of their unit vectors, which is exact for small angles."""
    one, other = normalize(one, dim=-1), normalize(other, dim=-1)
    apart, together = (torch.linalg.vector_norm(x, dim=-1) for x in (one - other, one + other))
    return torch.rad2deg(2 * torch.atan2(apart, together))


@also_reads("class_cones.points", parts, within=(-1, 1), across=True, explored=True)
def points(sums: ByLayer, spread: ByLayer = NONE, sample: ByLayer = NONE, few: ByLayer = NONE) -> Iterator[Reading]:
    """The unit vectors u of at most 1,000 sampled examples along the axes of `class_cones.bases`, with their `length` before.

    `centred` and so on: of u - m, made a unit vector again, along the centred axes. What coordinates lack in length lies outside
    of the axes; `angle` and `centred_angle` are the true ones in degrees. In layers without a sample there
    are the hidden states of at most 256 examples.
    """
    cones = _cones(sums, spread, sample, few)
    for layer, plain, centred in _both(cones):
        examples = cones[layer].examples
        if examples is None:
            continue
        some = slice(POINTS)
        units = examples.units[some]
        around = in_three(units[:, :0]) if centred is None else centred.of(units)
        angle, centred_angle = (found[some] for found in own_angles(cones[layer]))
        more: dict[str, Tensor | Sequence[str]] = {"length": examples.norms[some], "angle": angle, "centred_angle": centred_angle}
        more |= {"gold": examples.gold[some], "predicted": examples.predicted[some], "example": examples.names[some]}
        yield _reading(plain.of(units), around, torch.ones_like(examples.gold[some]), more, layer)
