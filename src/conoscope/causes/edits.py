"""Edits: which vectors of a pass are changed, and how: to zero, to others, by a factor, by a vector that is added."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Literal

import torch
from jaxtyping import Bool, Float
from torch import Tensor

Site = Literal["context", "output", "forward", "hidden"]
SITES: dict[Site, str] = {
    "context": "the context of its heads, before the output projection",
    "output": "the attention output",
    "forward": "the feed-forward output",
    "hidden": "the hidden state",
}
"""The sites that can be edited, and what they are in a layer."""
HIDDEN: tuple[Site, ...] = ("hidden",)
"""Hidden states alone."""
Change = Callable[[Float[Tensor, "b t d"]], Float[Tensor, "b t d"]]
"""New vectors from old ones, for every token of some rows; padding may become anything."""


@dataclass(frozen=True)
class Edit:
    """A change of the vectors of one site of a layer, or of one head of it.

    `layer` counts from 1, and `hidden` has a layer 0, the embeddings. `head` counts from 1, and only contexts have heads.
    `rows`: the rows of the batch that are changed.
    """

    site: Site
    layer: int
    change: Change
    head: int | None = None
    rows: slice = field(default_factory=lambda: slice(None))

    def applied(self, x: Float[Tensor, "b t d"], heads: int) -> Float[Tensor, "b t d"]:
        """A copy of the vectors of all heads with the change in it."""
        edited = x.clone()
        part = edited[self.rows] if self.head is None else edited.unflatten(-1, (heads, -1))[self.rows, :, self.head - 1]
        part.copy_(self.change(part.clone()))
        return edited


def zeroed(where: Bool[Tensor, "b t"] | None = None) -> Change:
    """Vectors become 0; with `where`, those of these tokens only."""
    return scaled(0.0, where)


def scaled(factor: float, where: Bool[Tensor, "b t"] | None = None) -> Change:
    """Vectors are multiplied by a factor; with `where`, those of these tokens only."""
    return lambda x: _chosen(x * factor if factor else torch.zeros_like(x), x, where)


def replaced(by: Float[Tensor, "..."], where: Bool[Tensor, "b t"] | None = None) -> Change:
    """Vectors become others: one for all, or one for each token of each row; with `where`, those of these tokens only."""
    return lambda x: _chosen(by.to(x).expand_as(x), x, where)


def added(vector: Float[Tensor, "..."], where: Bool[Tensor, "b t"] | None = None) -> Change:
    """A vector is added; with `where`, to those of these tokens only."""
    return lambda x: _chosen(x + vector.to(x), x, where)


def averaged(where: Bool[Tensor, "b t"]) -> Change:
    """The vectors of these tokens become their mean, in each text its own."""

    def change(x: Tensor) -> Tensor:
        keep = where[..., None].to(x)
        mean = (x * keep).sum(1, keepdim=True) / keep.sum(1, keepdim=True).clamp_min(1)
        return _chosen(mean.expand_as(x), x, where)

    return change


def _chosen(new: Tensor, old: Tensor, where: Tensor | None) -> Tensor:
    return new if where is None else torch.where(where[..., None], new, old)
