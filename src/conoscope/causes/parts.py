"""Parts: what an ablation takes away, each head and each layer's outputs, and what it puts in their place."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

from conoscope.capture.batch import Batch
from conoscope.causes.editor import Editor
from conoscope.causes.edits import Edit, Site, replaced, zeroed
from conoscope.causes.passes import Place
from conoscope.common.errors import CaptureError

HOWS = ("zero", "mean")
"""What vectors become: 0, or their mean over the texts."""
ABLATED: tuple[Site, ...] = ("context", "output", "forward")


@dataclass(frozen=True)
class Part:
    """A head (its context), or the attention or feed-forward output of a layer."""

    site: Site
    layer: int
    head: int | None = None

    @property
    def place(self) -> Place:
        """Its site of its layer."""
        return self.site, self.layer


def parts_of(editor: Editor) -> list[Part]:
    """Every part of a model that was found, layer by layer; CaptureError if there is none."""
    parts = []
    for layer, heads in enumerate(editor.heads, 1):
        found = [site for site in ABLATED if layer in editor.layers_of(site)]
        parts += [Part("context", layer, head) for head in range(1, heads + 1) if "context" in found]
        parts += [Part(site, layer) for site in found if site != "context"]
    if not parts:
        raise CaptureError(
            f"neither W_O nor a feed-forward part can be followed in {type(editor.module).__name__}; there is nothing to ablate"
        )
    return parts


@dataclass(frozen=True)
class References:
    """The mean vector of each site over the real tokens of all texts: of those that are classified from, and of all others."""

    classifying: Mapping[Place, Float[Tensor, " d"]]
    others: Mapping[Place, Float[Tensor, " d"]]

    def of(self, place: Place, batch: Batch, head: int | None = None, heads: int = 1) -> Float[Tensor, "b t d"]:
        """The mean that stands for each token; of one of the heads alone."""
        one, other = (
            x if head is None else x.unflatten(-1, (heads, -1))[head - 1] for x in (self.classifying[place], self.others[place])
        )
        return torch.where(classifying_of(batch)[..., None], one, other)


class MeanCounter:
    """Adds up the vectors of each site, in double precision."""

    def __init__(self) -> None:
        self._sums: dict[Place, Float[Tensor, "2 d"]] = {}
        self._counts: Tensor | int = 0

    def add(self, vectors: Mapping[Place, Float[Tensor, "b t d"]], batch: Batch) -> None:
        """Add the vectors of a batch."""
        at = classifying_of(batch)
        masks = torch.stack((at, batch.real & ~at)).flatten(1).double()
        self._counts = self._counts + masks.sum(-1)
        for place, x in vectors.items():
            self._sums[place] = self._sums.get(place, 0) + masks @ x.flatten(0, 1).double()

    def means(self) -> References:
        """The means; those of no token are 0, and stand for none."""
        counts = torch.as_tensor(self._counts).clamp_min(1)
        means = {place: total / counts[:, None] for place, total in self._sums.items()}
        return References({place: x[0] for place, x in means.items()}, {place: x[1] for place, x in means.items()})


def classifying_of(batch: Batch) -> Tensor:
    """Mask of the tokens that are classified from; of none for a model that reads several, whose `cls` is that of [CLS]."""
    at = torch.arange(batch.real.shape[1], device=batch.real.device) == batch.cls[:, None]
    return at & batch.reads


def edit_of(part: Part, how: str, batch: Batch, references: References | None, heads: int) -> Edit:
    """The edit that takes a part away from the real tokens of a batch: some models (ConvBERT, Nyströmformer) read padding too."""
    if how == "zero":
        return Edit(part.site, part.layer, zeroed(batch.real), part.head)
    assert references is not None
    new = references.of(part.place, batch, part.head, heads)
    return Edit(part.site, part.layer, replaced(new, batch.real), part.head)


def estimated(
    parts: Sequence[Part],
    how: str,
    batch: Batch,
    slopes: Mapping[Place, tuple[Tensor, Tensor]],
    references: References | None,
    heads: Sequence[int],
) -> Float[Tensor, "b parts"]:
    """The first-order estimate of the effect of each part: the gradient times the change of its vectors, over all real tokens."""
    found: dict[Place, Tensor] = {}
    for place, (x, slope) in slopes.items():
        new = torch.zeros_like(x) if how == "zero" or references is None else references.of(place, batch)
        by_coordinate: Tensor = ((new - x.double()) * slope.double() * batch.real[..., None]).sum(1)
        count = heads[place[1] - 1] if place[0] == "context" else 1
        found[place] = by_coordinate.unflatten(-1, (count, -1)).sum(-1)
    return torch.stack([found[part.place][:, (part.head or 1) - 1] for part in parts], -1)
