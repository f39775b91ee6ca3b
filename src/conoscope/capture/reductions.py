"""Looks: what is kept of attention weights while they pass, some rows of some examples at a time.

The weights of long texts are never whole: a piece of them is made, looked at and gone. What a look finds for each query is
laid side by side, what it finds for each key is added up.
"""

from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Literal

import torch
from jaxtyping import Float, Int
from torch import Tensor

from conoscope.capture.batch import Batch
from conoscope.capture.class_token import first_place
from conoscope.capture.token_kinds import SEP
from conoscope.sums.numeric import at_least_single, entropy_of, mixed

DRAWN = 16
"""How many tokens of a text are drawn, besides its special ones, where all would be too many."""
BAND = (-1, 0, 1)
"""Which neighbours the look called `band` sees: the previous token, the token itself, the next."""


@dataclass(frozen=True)
class AttentionChunk:
    """The weights of some queries, from `row` on, of the examples from `example` on."""

    weights: Float[Tensor, "b h i t"]
    batch: Batch
    example: int = 0
    row: int = 0

    @property
    def examples(self) -> slice:
        """Which examples of the batch these are."""
        return slice(self.example, self.example + len(self.weights))

    @property
    def rows(self) -> slice:
        """Which queries these are."""
        return slice(self.row, self.row + self.weights.shape[2])

    def of(self, tokens: Tensor) -> Tensor:
        """What a tensor over tokens tells of these queries."""
        return tokens[self.examples, self.rows]


@dataclass(frozen=True)
class Reduction:
    """What is computed of a piece; whether it is of each query (along the third axis) or of each key."""

    compute: Callable[[AttentionChunk], Tensor]
    of: Literal["query", "key"]


REDUCTIONS: dict[str, Reduction] = {}


def _reduction(of: Literal["query", "key"]) -> Callable[[Callable[[AttentionChunk], Tensor]], Callable[[AttentionChunk], Tensor]]:
    def enter(compute: Callable[[AttentionChunk], Tensor]) -> Callable[[AttentionChunk], Tensor]:
        REDUCTIONS[compute.__name__] = Reduction(compute, of)
        return compute

    return enter


@_reduction("query")
def entropy(piece: AttentionChunk) -> Float[Tensor, "b h i"]:
    """-Σ p log p of each query's weights."""
    return entropy_of(at_least_single(piece.weights))


@_reduction("query")
def band(piece: AttentionChunk) -> Float[Tensor, "b h i 3"]:
    """The weights of the previous token, of the token itself and of the next; 0 where there is none."""
    weights, tokens = piece.weights, piece.weights.shape[-1]
    rows = torch.arange(piece.rows.start, piece.rows.stop, device=weights.device)
    at = rows[:, None] + torch.tensor(BAND, device=weights.device)
    found = weights.gather(-1, at.clamp(0, tokens - 1).expand(*weights.shape[:2], -1, -1))
    return at_least_single(found) * ((at >= 0) & (at < tokens))


@_reduction("query")
def columns(piece: AttentionChunk) -> Float[Tensor, "b h i k"]:
    """The weights of the keys that `drawn_keys` names."""
    at = drawn_keys(piece.batch)[piece.examples, None, None]
    return at_least_single(piece.weights).gather(-1, at.expand(*piece.weights.shape[:3], -1))


@_reduction("key")
def received(piece: AttentionChunk) -> Float[Tensor, "b h 2 t"]:
    """The sum of a key's weights over the real queries, and over those that are separators."""
    weights, batch = at_least_single(piece.weights), piece.batch
    asking = torch.stack((piece.of(batch.real), piece.of(batch.kind == SEP)), dim=1)
    return asking[:, None].to(weights.dtype) @ weights


@_reduction("key")
def paired(piece: AttentionChunk) -> Float[Tensor, "b h t"]:
    """The weight that one query, drawn by hash, gives to each key."""
    weights = at_least_single(piece.weights)
    at = drawn_queries(piece.batch)[piece.examples, None, None] - piece.row
    here = (at >= 0) & (at < weights.shape[2])
    found = weights.gather(2, at.clamp(0, weights.shape[2] - 1).expand(-1, weights.shape[1], -1, -1))
    return (found * here)[:, :, 0]


@_reduction("key")
def classifying(piece: AttentionChunk) -> Float[Tensor, "b h t"]:
    """The weights of the query that is classified from; 0 where there is none."""
    weights, at = at_least_single(piece.weights), piece.batch.cls[piece.examples] - piece.row
    here = (at >= 0) & (at < weights.shape[2])
    rows = torch.arange(len(weights), device=weights.device)
    return weights[rows, :, at.clamp(0, weights.shape[2] - 1)] * here[:, None, None]


def drawn_keys(batch: Batch) -> Int[Tensor, "b k"]:
    """The places of every text's special tokens and of the DRAWN others with the smallest hash; where a text has fewer, other
    places fill the row."""

    def compute() -> Tensor:
        rank = torch.iinfo(torch.int64)
        ranks = batch.token_ranks.where(batch.real, rank.max).where(~batch.special, rank.min)
        size = min(DRAWN + int(batch.special.sum(-1).max()), ranks.shape[-1])
        return ranks.topk(size, largest=False).indices

    found: Tensor = batch.memo("drawn keys", compute)
    return found


def drawn_weights(batch: Batch) -> Float[Tensor, "b k"]:
    """For how many tokens of its text each of the drawn keys stands; 0 for those that only fill a row."""

    def compute() -> Tensor:
        at = drawn_keys(batch)
        special = batch.special.sum(-1, keepdim=True)
        others = batch.real.sum(-1, keepdim=True) - special
        place = torch.arange(at.shape[1], device=at.device)
        stands = others / others.clamp(1, DRAWN)
        return torch.where(place < special, 1.0, stands.where(place < special + others.clamp_max(DRAWN), 0.0)).double()

    found: Tensor = batch.memo("drawn weights", compute)
    return found


def drawn_queries(batch: Batch) -> Int[Tensor, "b t"]:
    """For each token a query of its text, drawn by the token's hash."""

    def compute() -> Tensor:
        return first_place(batch.real)[:, None] + mixed(batch.token_ranks) % batch.real.sum(-1, keepdim=True).clamp_min(1)

    found: Tensor = batch.memo("drawn queries", compute)
    return found


@dataclass
class Reducer:
    """Takes piece by piece, example after example and row after row, and puts together what each look found."""

    batch: Batch
    wanted: Collection[str]
    _found: dict[str, list[list[Tensor]]] = field(default_factory=dict)

    def take(self, piece: AttentionChunk) -> None:
        """Look at one piece."""
        for name in self.wanted:
            of_examples = self._found.setdefault(name, [])
            if not piece.row:
                of_examples.append([])
            of_examples[-1].append(REDUCTIONS[name].compute(piece))

    def found(self) -> Mapping[str, Tensor]:
        """What was found, for the whole batch."""
        return dict(self._joined())

    def _joined(self) -> Iterator[tuple[str, Tensor]]:
        for name, of_examples in self._found.items():
            by_query = REDUCTIONS[name].of == "query"
            yield name, torch.cat([torch.cat(p, dim=2) if by_query else torch.stack(p).sum(0) for p in of_examples])
