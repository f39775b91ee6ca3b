"""Directions to turn vectors towards: of classes, of shuffled labels, and random ones within the texts' covariance."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Float, Int
from torch import Tensor
from torch.nn.functional import normalize

from conoscope.capture.batch import Batch, sent
from conoscope.causes.passes import Kept
from conoscope.common.errors import CorpusError
from conoscope.corpora import stable_hash

LEAST = 2
"""Texts of a class from which a direction is taken."""
SAME = 1e-6
"""Unit vectors that differ by no more are one direction: [CLS] of layer 0 is one vector for all texts, up to rounding."""


@dataclass(frozen=True)
class Directions:
    """The unit vectors of labelled texts in each layer, centred on their mean, and the mean direction of each class.

    `known`: the classes that have a direction; the others have NaN. `labels`, of the texts, are in the CPU's memory.
    """

    units: Mapping[int, Float[Tensor, "n d"]]
    classes: Mapping[int, Float[Tensor, "c d"]]
    labels: Int[Tensor, " n"]
    known: Sequence[int]

    @property
    def layers(self) -> list[int]:
        """The layers in which the texts' directions differ."""
        return [layer for layer, units in self.units.items() if float(units.abs().amax()) > SAME]

    def targets(self, predicted: Int[Tensor, " b"], place: Int[Tensor, " b"]) -> Int[Tensor, " b"]:
        """The class that each text is turned towards: one other than its own, and each other in turn by the text's number; -1 for
        a class that has no direction."""
        known = sent(torch.tensor(self.known), predicted.device)
        at = (predicted[:, None] == known).int()
        others = len(self.known) - 1
        found = known[(at.argmax(-1) + 1 + (place - 1) % others) % len(self.known)]
        return found.where(at.any(-1), -1)

    def coefficients(
        self, batch: Batch, source: Int[Tensor, " b"], target: Int[Tensor, " b"]
    ) -> tuple[Float[Tensor, "b n"], Float[Tensor, "b n"]]:
        """Coefficients of the centred units for each text: independent normal ones, whose sum has the texts' covariance; and
        those of the mean of the target class minus that of the source class after the labels were shuffled."""
        normal, shuffled = [], []
        for name in batch.ids:
            draw = torch.Generator().manual_seed(stable_hash(f"steer {name}") % 2**63)
            normal.append(torch.randn(len(self.labels), generator=draw, dtype=torch.float64))
            shuffled.append(self.labels[torch.randperm(len(self.labels), generator=draw)])
        given = sent(torch.stack(shuffled), source.device)
        one, other = ((given == at[:, None]).double() for at in (target, source))
        contrast = one / one.sum(-1, keepdim=True) - other / other.sum(-1, keepdim=True)
        return sent(torch.stack(normal), source.device), contrast


def directions_of(passes: Iterable[Kept], layers: Sequence[int], texts: object) -> Directions:
    """The directions that labelled texts give, from passes that kept hidden states.

    CorpusError for fewer than two classes of at least LEAST texts.
    """
    vectors: dict[int, list[Tensor]] = {layer: [] for layer in layers}
    labels: list[Tensor] = []
    for kept in passes:
        labels.append(kept.batch.label)
        for layer in layers:
            vectors[layer].append(normalize(read_at(kept.vectors["hidden", layer], kept.batch).double(), dim=-1))
    gold = torch.cat(labels) if labels else torch.zeros(0, dtype=torch.long)
    labelled = gold >= 0
    counts = gold[labelled].bincount()
    known = (counts >= LEAST).nonzero()[:, 0].tolist()
    if len(known) < 2:
        found = "no labelled text" if not len(counts) else f"{len(known)} class{'es' if len(known) != 1 else ''} with {LEAST}"
        raise CorpusError(
            f"{texts} gives directions of classes, and has {found}{' texts' if len(counts) else ''}; "
            f"give --directions texts of at least two classes, {LEAST} of each"
        )
    labelled &= (gold[:, None] == torch.tensor(known, device=gold.device)).any(-1)
    gold = gold[labelled]
    units, classes = {}, {}
    for layer, parts in vectors.items():
        here = torch.cat(parts)[labelled]
        means = torch.full((int(counts.shape[0]), here.shape[1]), torch.nan, dtype=torch.float64, device=here.device)
        for number in known:
            means[number] = normalize(here[gold == number].mean(0), dim=-1)
        units[layer], classes[layer] = here - here.mean(0), means
    return Directions(units, classes, gold.cpu(), known)


def read_at(x: Float[Tensor, "b t d"], batch: Batch) -> Float[Tensor, "b d"]:
    """The vector of each text at the token that is classified from."""
    return x[batch.numbers, batch.cls.to(x.device)]
