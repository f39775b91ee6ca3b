"""Class maps: the mean attention map of a head over the correctly classified examples of each class."""

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from conoscope.capture.batch import Batch
from conoscope.capture.class_token import first_place
from conoscope.capture.token_kinds import SEP
from conoscope.capture.trace import PooledOutput
from conoscope.quantities.base import quantity
from conoscope.sums.samples import ByKey
from conoscope.sums.statistics import Moments

LONGEST = 128
"""Queries and keys beyond this many are left out."""


def heads_of(text: str) -> dict[int, list[int]]:
    """The heads of each layer that a text such as `4.9+7.10` (layer 4 head 9, layer 7 head 10) names, both counted from 1."""
    heads: dict[int, list[int]] = {}
    for name in text.split("+"):
        layer, head = map(int, name.split("."))
        heads.setdefault(layer, []).append(head)
    return heads


@quantity(of=PooledOutput, sparse=True)
def class_maps(answer: PooledOutput, heads: str) -> ByKey | None:
    """The maps of the named heads, by class, of correctly classified examples; weights from the first separator on are 0."""
    batch, chosen = answer.batch, heads_of(heads).get(answer.layer, [])
    if answer.maps is None or not all(head in answer.maps for head in chosen):
        return None
    right = (answer.predicted == batch.label) & (batch.label >= 0)
    rows = right.nonzero()[:, 0]
    if not chosen or not len(rows):
        return None
    before = _before_the_separator(batch)[rows]
    maps = torch.stack([answer.maps[head][rows] for head in chosen], dim=1)
    maps = _left_aligned(maps.where((before[:, :, None] & before[:, None])[:, None], 0.0), batch, rows)
    return ByKey.of([str(label) for label in batch.label[rows].tolist()], Moments, maps)


def _before_the_separator(batch: Batch) -> Bool[Tensor, "b t"]:
    return batch.real & ((batch.kind == SEP).cumsum(-1) == 0)


def _left_aligned(maps: Float[Tensor, "n k t t"], batch: Batch, rows: Tensor) -> Float[Tensor, "n k s s"]:
    """The maps with each text's first token at position 0, padded with 0 to LONGEST positions."""
    length = maps.shape[-1]
    first = first_place(batch.real[rows])
    at = (first[:, None] + torch.arange(LONGEST, device=maps.device)).clamp_max(length - 1)
    inside = first[:, None] + torch.arange(LONGEST, device=maps.device) < length
    each = torch.arange(len(rows), device=maps.device)
    moved = maps[each[:, None, None], :, at[:, :, None], at[:, None]].permute(0, 3, 1, 2)
    return moved.where((inside[:, :, None] & inside[:, None])[:, None], 0.0)
