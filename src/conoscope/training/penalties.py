"""Penalties on attention: what training adds to the loss, from weights before dropout (Fosse et al. 2023)."""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from conoscope.common.errors import ModelError, one_of
from conoscope.sums.numeric import normalized

ROWS = ("cls", "all", "columns")
INPUTS = ("minmax", "raw", "sigmoid")
TINY, HIDDEN = 1e-30, -1e30
SMOOTH = 1e-7


@dataclass(frozen=True)
class Penalties:
    """How much of each is added, and of which attention.

    `entropy`: its normalised entropy. `rationale`: 1 - IoU with what people marked. `lagrange`: how far its entropy is from
    that of what people marked. `rows`: the row of [CLS], all rows, or the columns' sums after a softmax (as published for BERT);
    `layers`: from the first of them to the last, counted from 1; `scale`: how the rationale penalty's input is made from
    the weights: between 0 and 1 in each text, as they are, or through a sigmoid (as published).
    """

    entropy: float = 0.0
    rationale: float = 0.0
    lagrange: float = 0.0
    rows: str = "cls"
    layers: tuple[int, int] = (1, 1)
    scale: str = "minmax"

    def __post_init__(self) -> None:
        for option, known in (("rows", ROWS), ("scale", INPUTS)):
            if getattr(self, option) not in known:
                raise ModelError(f"no {option} {getattr(self, option)!r} of a penalty; known: {one_of(known)}")

    @property
    def any(self) -> bool:
        """Whether there is anything to add."""
        return bool(self.entropy or self.rationale or self.lagrange)

    @property
    def supervised(self) -> bool:
        """Whether rationales are needed."""
        return bool(self.rationale or self.lagrange)


@dataclass(frozen=True)
class Marks:
    """What a penalty knows of every token: real, content (not special), where [CLS] is (-1 for nowhere), and what people
    marked: 1 or 0, and -1 where nobody was asked."""

    real: Bool[Tensor, "b t"]
    content: Bool[Tensor, "b t"]
    cls: Int[Tensor, " b"]
    marked: Int[Tensor, "b t"]


def penalty(maps: Sequence[Float[Tensor, "b h t t"]], marks: Marks, chosen: Penalties) -> Float[Tensor, ""]:
    """The sum of the chosen penalties."""
    first, last = chosen.layers
    if not 1 <= first <= last <= len(maps):
        raise ModelError(f"no layers {first}..{last} to penalise in a model of {len(maps)}; count from 1")
    weights = torch.stack([m.mean(1) for m in maps[first - 1 : last]])
    total = weights.new_zeros(())
    if chosen.entropy:
        total = total + chosen.entropy * _entropy(weights, marks, chosen.rows).mean()
    if chosen.supervised:
        asked, marked = (marks.marked >= 0).any(-1), (marks.marked > 0).any(-1)
        attention, among = _one_row(weights, marks, chosen.rows)
        if chosen.rationale and marked.any():
            total = total + chosen.rationale * _miss(attention[marked], marks.marked[marked], marks.content[marked], chosen.scale)
        if chosen.lagrange and asked.any():
            ours = normalized_entropy(attention[asked], among[asked].sum(-1))
            theirs = _entropy_of_marks(marks.marked[asked], among[asked]).to(ours.dtype)
            total = total + chosen.lagrange * (ours - theirs).abs().mean()
    return total


def normalized_entropy(p: Float[Tensor, "*shape t"], n: Int[Tensor, "*shape"]) -> Float[Tensor, "*shape"]:
    """-Σ p log p / log n, with log 2 where n is 1."""
    # Not `entropy_of`, which has no gradient.
    return normalized(-(p * (p + TINY).log()).sum(-1), n)


def _entropy(weights: Float[Tensor, "l b t t"], marks: Marks, rows: str) -> Float[Tensor, "..."]:
    """The entropies to be averaged: of the one row of each text, or of every real row of every layer."""
    if rows == "all":
        n = marks.real.sum(-1)[None, :, None].expand(weights.shape[:-1])
        return normalized_entropy(weights, n)[:, marks.real]
    row, among = _one_row(weights, marks, rows)
    return normalized_entropy(row, among.sum(-1))


def _one_row(weights: Float[Tensor, "l b t t"], marks: Marks, rows: str) -> tuple[Float[Tensor, "b t"], Bool[Tensor, "b t"]]:
    """The attention that each token of a text gets, and the tokens among which it is shared out."""
    if rows == "cls":
        if (marks.cls < 0).any():
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
    """1 - IoU over the content tokens of all texts in which people marked something."""
    wanted = (marked > 0) & content
    given = _scaled(attention, content, scale) * content
    shared = (given * wanted).sum()
    return 1 - (shared + SMOOTH) / (given.sum() + wanted.sum() - shared + SMOOTH)


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
