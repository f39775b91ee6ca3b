"""Penalties on attention, added to the training loss, from weights before dropout (Fosse et al. 2023)."""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from conoscope.capture.sending import is_capturing
from conoscope.common.errors import ModelError, one_of
from conoscope.sums.numeric import normalized

ROWS = ("cls", "all", "columns")
INPUTS = ("minmax", "raw", "sigmoid")
UNITS = ("sentence", "summed")
TINY, HIDDEN = 1e-30, -1e30
SMOOTH = 1e-7


@dataclass(frozen=True)
class Penalties:
    """The weight of each penalty, and the attention that it applies to.

    `entropy`: the normalised entropy of attention. `rationale`: 1 - IoU with the human rationale. `lagrange`: the distance of its
    entropy from that of the rationale. `rows`: the row of [CLS], all rows, or the column sums after a softmax (as published for
    BERT). `layers`: the first and the last layer, counted from 1. `scale`: how weights enter the rationale penalty: scaled to
    [0, 1] in each text, as they are, or through a sigmoid (as published). `unit`: the entropy penalty is the mean of normalised
    entropies (sentence), or the sum over a batch of entropies in nats (summed).
    """

    entropy: float = 0.0
    rationale: float = 0.0
    lagrange: float = 0.0
    rows: str = "cls"
    layers: tuple[int, int] = (1, 1)
    scale: str = "minmax"
    unit: str = "sentence"

    def __post_init__(self) -> None:
        for option, known in (("rows", ROWS), ("scale", INPUTS), ("unit", UNITS)):
            if getattr(self, option) not in known:
                raise ModelError(f"no {option} {getattr(self, option)!r} of a penalty; known: {one_of(known)}")

    @property
    def any(self) -> bool:
        """Whether any penalty has a weight."""
        return bool(self.entropy or self.rationale or self.lagrange)

    @property
    def supervised(self) -> bool:
        """Whether rationales are needed."""
        return bool(self.rationale or self.lagrange)

    @property
    def summed(self) -> bool:
        """Whether the entropy penalty grows with the batch."""
        return bool(self.entropy) and self.unit == "summed"


@dataclass(frozen=True)
class Marks:
    """Token masks for penalties: real, content (not special), the position of [CLS] (-1 for none), and the human marks: 1 or 0,
    and -1 where nobody annotated."""

    real: Bool[Tensor, "b t"]
    content: Bool[Tensor, "b t"]
    cls: Int[Tensor, " b"]
    marked: Int[Tensor, "b t"]


def penalty(maps: Sequence[Float[Tensor, "b h t t"]], marks: Marks, chosen: Penalties) -> Float[Tensor, ""]:
    """The weighted sum of the chosen penalties."""
    first, last = chosen.layers
    if not 1 <= first <= last <= len(maps):
        raise ModelError(f"no layers {first}..{last} to penalise in a model of {len(maps)}; count from 1")
    weights = torch.stack([m.mean(1) for m in maps[first - 1 : last]])
    total = weights.new_zeros(())
    if chosen.entropy:
        total = total + chosen.entropy * _entropy(weights, marks, chosen)
    if chosen.supervised:
        annotated, marked = (marks.marked >= 0).any(-1), (marks.marked > 0).any(-1)
        attention, among = _one_row(weights, marks, chosen.rows)
        if chosen.rationale and marked.any():
            total = total + chosen.rationale * _miss(attention[marked], marks.marked[marked], marks.content[marked], chosen.scale)
        if chosen.lagrange and annotated.any():
            ours = normalized_entropy(attention[annotated], among[annotated].sum(-1))
            theirs = _entropy_of_marks(marks.marked[annotated], among[annotated]).to(ours.dtype)
            total = total + chosen.lagrange * (ours - theirs).abs().mean()
    return total


def normalized_entropy(p: Float[Tensor, "*shape t"], n: Int[Tensor, "*shape"]) -> Float[Tensor, "*shape"]:
    """-Σ p log p / log n, with log 2 where n is 1."""
    return normalized(entropy(p), n)


def entropy(p: Float[Tensor, "*shape t"]) -> Float[Tensor, "*shape"]:
    """-Σ p log p, in nats."""
    # Not `entropy_of`, which has no gradient.
    total: Tensor = -(p * (p + TINY).log()).sum(-1)
    return total


def _entropy(weights: Float[Tensor, "l b t t"], marks: Marks, chosen: Penalties) -> Float[Tensor, ""]:
    """The mean or the sum of the entropies of one row per text, or of every real row of every layer."""
    if chosen.rows == "all":
        n = marks.real.sum(-1)[None, :, None].expand(weights.shape[:-1])
        return entropy(weights)[:, marks.real].sum() if chosen.summed else normalized_entropy(weights, n)[:, marks.real].mean()
    row, among = _one_row(weights, marks, chosen.rows)
    return entropy(row).sum() if chosen.summed else normalized_entropy(row, among.sum(-1)).mean()


def _one_row(weights: Float[Tensor, "l b t t"], marks: Marks, rows: str) -> tuple[Float[Tensor, "b t"], Bool[Tensor, "b t"]]:
    """The attention that each token of a text receives, and the mask of tokens that share it."""
    if rows == "cls":
        # Asking waits for a GPU: a step that is recorded ran before, and its batch was asked then.
        if not is_capturing() and (marks.cls < 0).any():
            raise ModelError("no [CLS] whose attention could be penalised; give --penalty-rows all")
        places = torch.arange(len(marks.cls), device=marks.cls.device)
        return weights.mean(0)[places, marks.cls], marks.real
    real_rows = weights * marks.real[:, :, None]
    if rows == "all":
        return real_rows.sum(-2).mean(0) / marks.real.sum(-1, keepdim=True), marks.real
    among = marks.content | ~marks.content.any(-1, keepdim=True) & marks.real
    sums = real_rows.sum(-2).sum(0).masked_fill(~among, HIDDEN)
    return sums.softmax(-1), among


def _miss(
    attention: Float[Tensor, "b t"], marked: Int[Tensor, "b t"], content: Bool[Tensor, "b t"], scale: str
) -> Float[Tensor, ""]:
    """1 - IoU over the content tokens of all texts with a marked token."""
    target = (marked > 0) & content
    given = _scaled(attention, content, scale) * content
    shared = (given * target).sum()
    return 1 - (shared + SMOOTH) / (given.sum() + target.sum() - shared + SMOOTH)


def _scaled(attention: Float[Tensor, "b t"], content: Bool[Tensor, "b t"], scale: str) -> Float[Tensor, "b t"]:
    if scale == "raw":
        return attention
    if scale == "sigmoid":
        return attention.sigmoid()
    least = attention.masked_fill(~content, torch.inf).amin(-1, keepdim=True)
    most = attention.masked_fill(~content, -torch.inf).amax(-1, keepdim=True)
    return ((attention - least) / (most - least).clamp_min(SMOOTH)).masked_fill(~content, 0.0)


def _entropy_of_marks(marked: Int[Tensor, "b t"], among: Bool[Tensor, "b t"]) -> Float[Tensor, " b"]:
    """log(marked tokens) / log(tokens); 0 where at most one is marked."""
    count = ((marked > 0) & among).sum(-1).clamp_min(1)
    return normalized(count.double().log(), among.sum(-1))
