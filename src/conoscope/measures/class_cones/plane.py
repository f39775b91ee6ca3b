"""The plane: the vectors that stand for single texts, projected onto two axes."""

from collections.abc import Iterator, Sequence
from math import inf, nan

import torch
from jaxtyping import Float, Int
from torch import Tensor

from conoscope.measures.base import Part, Reading, also_reads
from conoscope.measures.class_cones.directions import ROUNDING
from conoscope.measures.needs import Need
from conoscope.sums.samples import Sample


def _parts(vectors: str) -> Iterator[Part]:
    yield Part({"site": "hidden"}, False, {"sample": Need.of(Sample, "few_class_vectors", site="hidden")})


@also_reads("class_cones.plane", _parts, within=(-inf, inf))
def plane(sample: Sample) -> Iterator[Reading]:
    """The vectors that stand for at most 256 texts, around their mean, each as a point of a plane: `value` and `second`.

    `projection`: `pca`, the plane in which they vary most; `means`, that in which the means of the classes do, and where
    these lie on a line, that line and the direction across it in which the examples vary most. `share` is the part of the
    variance that the plane holds, `text` the beginning of the example.
    """
    values = sample.values.double()
    x, gold, predicted = values[:, :-2], values[:, -2].long(), values[:, -1].long()
    centred = x - x.mean(0)
    if not len(x) or bool(centred.abs().max() <= ROUNDING * x.abs().max()):
        return
    for projection, varying in (("pca", centred), ("means", _class_means(centred, gold))):
        seen = projected(centred, varying, gold)
        if seen is None:
            continue
        share = seen.square().sum() / centred.square().sum()
        first, second = seen.unbind(-1)
        more: dict[str, Tensor | Sequence[str]] = {"second": second, "share": share.expand_as(second)}
        more |= {"gold": gold, "predicted": predicted, "example": sample.texts(), "text": sample.beginnings()}
        yield Reading(first, torch.full_like(first, nan), torch.ones_like(gold), more).with_keys(projection=projection)


def _class_means(x: Float[Tensor, "n d"], gold: Int[Tensor, " n"]) -> Float[Tensor, "n d"]:
    """For every vector, the mean of its class."""
    own = torch.nn.functional.one_hot(gold).double()
    means: Tensor = own @ ((own.T @ x) / own.sum(0).clamp_min(1)[:, None])
    return means


def projected(
    centred: Float[Tensor, "n d"], varying: Float[Tensor, "n d"], gold: Int[Tensor, " n"]
) -> Float[Tensor, "n 2"] | None:
    """The coordinates of vectors along the first two principal axes of `varying`, or of the vectors themselves across the
    first axis where `varying` lies on it; None where it does not vary."""
    least = ROUNDING * centred.square().sum().sqrt()
    first = _axis(varying, least)
    if first is None:
        return None
    second = _axis(_across(varying, first), least)
    if second is None:
        second = _axis(_across(centred, first), least)
    axes = [_directed(centred, axis, gold) for axis in (first, torch.zeros_like(first) if second is None else second)]
    return centred @ torch.stack(axes, dim=-1)


def _across(x: Float[Tensor, "n d"], axis: Float[Tensor, " d"]) -> Float[Tensor, "n d"]:
    return x - (x @ axis)[:, None] * axis


def _axis(x: Float[Tensor, "n d"], least: Float[Tensor, ""]) -> Float[Tensor, " d"] | None:
    """The direction in which centred vectors vary most; None if they vary only by rounding."""
    if bool(x.square().sum().sqrt() <= least):
        return None
    axis: Tensor
    if len(x) < x.shape[1]:
        axis = torch.nn.functional.normalize(x.T @ torch.linalg.eigh(x @ x.T).eigenvectors[:, -1], dim=0)
    else:
        axis = torch.linalg.eigh(x.T @ x).eigenvectors[:, -1]
    return axis


def _directed(x: Float[Tensor, "n d"], axis: Float[Tensor, " d"], gold: Int[Tensor, " n"]) -> Float[Tensor, " d"]:
    """The axis with a fixed sign: classes of higher numbers lie further along it, so that layers can be compared.

    If the axis does not separate the classes, up to rounding, its largest coordinate is made positive.
    """
    along, number = x @ axis, gold.double() - gold.double().mean()
    together = along @ number
    if bool(together.abs() > ROUNDING * along.norm() * number.norm()):
        return axis * together.sign()
    largest = (axis.abs() >= (1 - ROUNDING) * axis.abs().max()).byte().argmax()
    return axis * axis[largest].sign()
