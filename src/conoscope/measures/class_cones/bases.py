"""Bases: up to three orthonormal axes for each layer, in which the directions of the classes are seen."""

from collections.abc import Mapping
from dataclasses import dataclass, replace

import torch
from jaxtyping import Float, Int
from torch import Tensor
from torch.nn.functional import normalize, pad

from conoscope.measures.class_cones.directions import ROUNDING, Cones

AXES = 3
"""How many axes a basis has, if the vectors vary in as many directions."""
SMALL, BLOCK = 128, 8
"""Up to this width all eigenvectors are computed; of wider vectors those within a space of so many dimensions, in such blocks."""


@dataclass(frozen=True)
class Basis:
    """Orthonormal axes of one layer and site, and the coordinates of the classes' directions along them.

    `directions`: unit vectors of the `known` classes; with `centre`, of what remains of them without it. The first `of_classes`
    axes are within their span, the others are principal axes of the examples across it. `shares`: of the variance of the
    examples' unit vectors, along each axis.
    """

    axes: Float[Tensor, "d k"]
    directions: Float[Tensor, "c d"]
    known: Int[Tensor, " c"]
    of_classes: int
    shares: Float[Tensor, " k"]
    centre: Float[Tensor, " d"] | None = None

    @property
    def coordinates(self) -> Float[Tensor, "c k"]:
        """The coordinates of the classes' directions."""
        return self.directions @ self.axes

    def rotated(self, by: Float[Tensor, "k k"]) -> "Basis":
        """The same space with other axes; the share of the variance along each is that of the rotated axis."""
        return replace(self, axes=self.axes @ by)

    def of(self, units: Float[Tensor, "n d"]) -> Float[Tensor, "n 3"]:
        """The coordinates of unit vectors; around the centre, if there is one, they are made unit vectors again.

        NaN along axes that there are not, and for a vector that is the centre up to rounding.
        """
        around = units if self.centre is None else units - self.centre
        length = torch.linalg.vector_norm(around, dim=-1, keepdim=True)
        return in_three((around / length).where(length > ROUNDING, torch.nan) @ self.axes)


def in_three(x: Float[Tensor, "*n k"]) -> Float[Tensor, "*n 3"]:
    """The same numbers, and NaN for the axes that there are not."""
    return pad(x, (0, AXES - x.shape[-1]), value=torch.nan)


def bases_of(layers: Mapping[int, Cones], centred: bool) -> dict[int, Basis]:
    """The basis of each layer that has one, `centred` on the mean of the classes' directions or not, in the order of layers.

    From the last layer down, each is turned so that its classes come to lie where those of the layer above it do: orthogonal
    Procrustes, among layers that have as many axes.
    """
    aligned: dict[int, Basis] = {}
    above: dict[tuple[int, int], Basis] = {}
    for layer in sorted(layers, reverse=True):
        found = basis_of(layers[layer], centred)
        if found is not None:
            kind = found.axes.shape[1], found.of_classes
            turned = found if kind not in above else found.rotated(rotation(found, above[kind]))
            above[kind] = aligned[layer] = replace(turned, shares=shares_of(turned.axes, covariance(layers[layer])))
    return dict(sorted(aligned.items()))


def basis_of(cones: Cones, centred: bool) -> Basis | None:
    """The basis of one layer, before it is aligned with others; None if no class has a direction.

    Its axes span the directions of the classes, or the three dimensions that hold the most of them; if these span fewer, the
    principal axes of the examples across them follow.
    """
    representatives = cones.of_kind("mean")
    known = (~representatives.isnan().any(-1)).nonzero()[:, 0]
    directions, centre = representatives[known], None
    if centred and len(known):
        centre = directions.mean(0)
        around = directions - centre
        apart = torch.linalg.vector_norm(around, dim=-1) > ROUNDING
        known, directions = known[apart], normalize(around[apart], dim=-1)
    if not len(known):
        return None
    spanned = _span(directions)
    own = spanned @ _oriented(directions @ spanned, first_is_mean=not centred)
    varying = covariance(cones)
    across = _principal(varying, own, AXES - own.shape[1]) if varying is not None else own[:, :0]
    axes = torch.cat((own, across), dim=1)
    return Basis(axes, directions, known, own.shape[1], torch.full(axes.shape[1:], torch.nan, dtype=axes.dtype), centre)


def _span(directions: Float[Tensor, "c d"]) -> Float[Tensor, "d k"]:
    """The first three right singular vectors of the directions, or fewer if they span fewer dimensions up to rounding."""
    axes: Tensor
    _, sizes, axes = torch.linalg.svd(directions, full_matrices=False)
    return axes[: min(AXES, int((sizes > ROUNDING).sum()))].T


def _oriented(x: Float[Tensor, "c k"], first_is_mean: bool) -> Float[Tensor, "k k"]:
    """Axes of the space that rows span, chosen by the rows: their mean, if that is asked for and is not 0; then, again and again,
    the part across all axes so far of the row in which it is longest; among equally long ones, of the last."""
    axes: list[Tensor] = []
    rest = x
    while len(axes) < x.shape[1]:
        lengths = torch.linalg.vector_norm(rest, dim=-1)
        longest = int((lengths >= lengths.max() - ROUNDING).nonzero()[-1])
        mean = rest.mean(0)
        by_mean = first_is_mean and not axes and bool(torch.linalg.vector_norm(mean) > ROUNDING)
        axes.append(normalize(mean if by_mean else rest[longest], dim=0))
        rest = x - (x @ torch.stack(axes, dim=1)) @ torch.stack(axes)
    # Axes of nearly parallel rows are orthogonal only up to rounding; R of QR may turn them, its signs turn them back.
    exact, signs = torch.linalg.qr(torch.stack(axes, dim=1))
    oriented: Tensor = exact * signs.diagonal().sign()
    return oriented


def covariance(cones: Cones) -> Float[Tensor, "d d"] | None:
    """The covariance of the examples' unit vectors around their mean, of all examples if its sums are kept, or of the sampled
    ones; None if there are neither."""
    spread = cones.spread
    if spread is not None:
        count = spread.count.double()
        mean = (count[:, None] * spread.mean).sum(0) / count.sum()
        gaps = spread.mean - mean
        return (spread.scatter.sum(0) + (gaps * count[:, None]).T @ gaps) / count.sum()
    if cones.examples is None:
        return None
    around = cones.examples.units - cones.examples.units.mean(0)
    return around.T @ around / len(around)


def shares_of(axes: Float[Tensor, "d k"], varying: Float[Tensor, "d d"] | None) -> Float[Tensor, " k"]:
    """The share of the variance along each axis; NaN if nothing varies."""
    if varying is None or float(varying.trace()) <= ROUNDING**2:
        return torch.full(axes.shape[1:], torch.nan, dtype=axes.dtype)
    return ((varying @ axes) * axes).sum(0) / varying.trace()


def _principal(varying: Float[Tensor, "d d"], across: Float[Tensor, "d k"], count: int) -> Float[Tensor, "d m"]:
    """The first principal axes of a covariance across some axes, at most `count`; variance below rounding gives none."""
    rest = varying - across @ (across.T @ varying)
    rest = rest - (rest @ across) @ across.T
    count = min(count, len(rest) - across.shape[1])
    if count < 1 or float(rest.trace()) <= ROUNDING**2:
        return across[:, :0]
    variances, axes = _largest(rest, count)
    return _signed(axes[:, variances > ROUNDING**2])


def _largest(matrix: Float[Tensor, "d d"], count: int) -> tuple[Float[Tensor, " k"], Float[Tensor, "d k"]]:
    """The largest eigenvalues of a symmetric matrix and their vectors, largest first."""
    space = None if len(matrix) <= SMALL else _krylov(matrix)
    seen = matrix if space is None else space.T @ matrix @ space
    values, vectors = torch.linalg.eigh((seen + seen.T) / 2)
    vectors = vectors if space is None else space @ vectors
    return values[-count:].flip(0), vectors[:, -count:].flip(1)


def _krylov(matrix: Float[Tensor, "d d"]) -> Float[Tensor, "d small"]:
    """An orthonormal basis of the space in which the first eigenvectors are found: a fixed block of vectors times powers of the
    matrix. It is a smooth function of the matrix, also where eigenvalues are nearly equal."""
    block = torch.randn(len(matrix), BLOCK, generator=torch.Generator().manual_seed(0), dtype=matrix.dtype)
    blocks = [block]
    while len(blocks) * BLOCK < SMALL:
        block = torch.linalg.qr(matrix @ block).Q
        blocks.append(block)
    basis: Tensor = torch.linalg.qr(torch.cat(blocks[::-1], dim=1)).Q
    return basis


def _signed(axes: Float[Tensor, "d k"]) -> Float[Tensor, "d k"]:
    """The axes with the largest coordinate of each made positive; among equally large ones, the first."""
    if not axes.shape[1]:
        return axes
    largest = (axes.abs() >= (1 - ROUNDING) * axes.abs().amax(0)).byte().argmax(0)
    return axes * axes.gather(0, largest[None]).sign()


def rotation(basis: Basis, above: Basis) -> Float[Tensor, "k k"]:
    """The orthogonal matrix that turns the axes of a layer towards those of another one with as many axes.

    Axes of classes are turned so that the classes lie as near as they can to where they lie above; the other axes, if vectors of
    both layers are as wide, so that they are as near as they can to those above.
    """
    own, total = basis.of_classes, basis.axes.shape[1]
    turning = torch.eye(total, dtype=torch.float64)
    here, there = (basis.known[:, None] == above.known).nonzero().unbind(-1)
    turning[:own, :own] = procrustes(basis.coordinates[here, :own].T @ above.coordinates[there, :own])
    if len(basis.axes) == len(above.axes):
        turning[own:, own:] = procrustes(basis.axes[:, own:].T @ above.axes[:, own:])
    return turning


def procrustes(products: Float[Tensor, "k k"]) -> Float[Tensor, "k k"]:
    """The orthogonal Q with the largest trace of Qᵀ M; the identity if several have it."""
    if not len(products):
        return products
    left, sizes, right = torch.linalg.svd(products)
    turned: Tensor = left @ right
    return turned if float(sizes.min()) > ROUNDING else torch.eye(len(products), dtype=products.dtype)
