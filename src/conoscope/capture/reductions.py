"""Reductions of attention weights, computed in chunks: some rows of some examples at a time.

The weights of long texts are never in memory at once: a chunk is computed, reduced and discarded. Results per query are
concatenated, results per key are summed.
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
"""How many tokens of a text are sampled, besides its special ones, if all would be too many."""
BAND = (-1, 0, 1)
"""Offsets of the reduction `band`: the previous token, the token itself, the next."""


@dataclass(frozen=True)
class AttentionChunk:
    """Attention weights of some queries, starting at `row`, of some examples, starting at `example`."""

    weights: Float[Tensor, "b h i t"]
    batch: Batch
    example: int = 0
    row: int = 0

    @property
    def examples(self) -> slice:
        """The examples of the batch in this chunk."""
        return slice(self.example, self.example + len(self.weights))

    @property
    def rows(self) -> slice:
        """The queries in this chunk."""
        return slice(self.row, self.row + self.weights.shape[2])

    def of(self, tokens: Tensor) -> Tensor:
        """The part of a tensor over tokens for the queries of this chunk."""
        return tokens[self.examples, self.rows]


@dataclass(frozen=True)
class Reduction:
    """A function of a chunk, and whether its result is per query (along the third axis) or per key."""

    compute: Callable[[AttentionChunk], Tensor]
    of: Literal["query", "key"]


REDUCTIONS: dict[str, Reduction] = {}


def _reduction(of: Literal["query", "key"]) -> Callable[[Callable[[AttentionChunk], Tensor]], Callable[[AttentionChunk], Tensor]]:
    def register(compute: Callable[[AttentionChunk], Tensor]) -> Callable[[AttentionChunk], Tensor]:
        REDUCTIONS[compute.__name__] = Reduction(compute, of)
        return compute

    return register


@_reduction("query")
def entropy(chunk: AttentionChunk) -> Float[Tensor, "b h i"]:
    """-Σ p log p of each query's weights."""
    return entropy_of(at_least_single(chunk.weights))


@_reduction("query")
def band(chunk: AttentionChunk) -> Float[Tensor, "b h i 3"]:
    """Each query's weights on the previous token, on the token itself and on the next; 0 if there is none."""
    weights, tokens = chunk.weights, chunk.weights.shape[-1]
    rows = torch.arange(chunk.rows.start, chunk.rows.stop, device=weights.device)
    at = rows[:, None] + torch.tensor(BAND, device=weights.device)
    neighbours = weights.gather(-1, at.clamp(0, tokens - 1).expand(*weights.shape[:2], -1, -1))
    return at_least_single(neighbours) * ((at >= 0) & (at < tokens))


@_reduction("query")
def columns(chunk: AttentionChunk) -> Float[Tensor, "b h i k"]:
    """Each query's weights on the keys that `drawn_keys` returns."""
    at = drawn_keys(chunk.batch)[chunk.examples, None, None]
    return at_least_single(chunk.weights).gather(-1, at.expand(*chunk.weights.shape[:3], -1))


@_reduction("key")
def received(chunk: AttentionChunk) -> Float[Tensor, "b h 2 t"]:
    """The sum of each key's weights over the real queries, and over the separator queries."""
    weights, batch = at_least_single(chunk.weights), chunk.batch
    queries = torch.stack((chunk.of(batch.real), chunk.of(batch.kind == SEP)), dim=1)
    return queries[:, None].to(weights.dtype) @ weights


@_reduction("key")
def paired(chunk: AttentionChunk) -> Float[Tensor, "b h t"]:
    """The weight of each key from one query, sampled by hash."""
    weights = at_least_single(chunk.weights)
    at = drawn_queries(chunk.batch)[chunk.examples, None, None] - chunk.row
    here = (at >= 0) & (at < weights.shape[2])
    sampled = weights.gather(2, at.clamp(0, weights.shape[2] - 1).expand(-1, weights.shape[1], -1, -1))
    return (sampled * here)[:, :, 0]


@_reduction("key")
def classifying(chunk: AttentionChunk) -> Float[Tensor, "b h t"]:
    """The weights of the classifying token's query; 0 if there is none."""
    weights, at = at_least_single(chunk.weights), chunk.batch.cls[chunk.examples] - chunk.row
    here = (at >= 0) & (at < weights.shape[2])
    rows = torch.arange(len(weights), device=weights.device)
    return weights[rows, :, at.clamp(0, weights.shape[2] - 1)] * here[:, None, None]


def drawn_keys(batch: Batch) -> Int[Tensor, "b k"]:
    """Positions of each text's special tokens, and of the DRAWN others with the smallest hash; if a text has fewer, other
    positions fill the row."""

    def compute() -> Tensor:
        rank = torch.iinfo(torch.int64)
        ranks = batch.token_ranks.where(batch.real, rank.max).where(~batch.special, rank.min)
        size = min(DRAWN + int(batch.special.sum(-1).max()), ranks.shape[-1])
        return ranks.topk(size, largest=False).indices

    keys: Tensor = batch.memo("drawn keys", compute)
    return keys


def drawn_weights(batch: Batch) -> Float[Tensor, "b k"]:
    """How many tokens of its text each sampled key represents; 0 for positions that only fill a row."""

    def compute() -> Tensor:
        at = drawn_keys(batch)
        special = batch.special.sum(-1, keepdim=True)
        others = batch.real.sum(-1, keepdim=True) - special
        place = torch.arange(at.shape[1], device=at.device)
        share = others / others.clamp(1, DRAWN)
        return torch.where(place < special, 1.0, share.where(place < special + others.clamp_max(DRAWN), 0.0)).double()

    weights: Tensor = batch.memo("drawn weights", compute)
    return weights


def drawn_queries(batch: Batch) -> Int[Tensor, "b t"]:
    """For each token, a query of the same text, sampled by the token's hash."""

    def compute() -> Tensor:
        return first_place(batch.real)[:, None] + mixed(batch.token_ranks) % batch.real.sum(-1, keepdim=True).clamp_min(1)

    queries: Tensor = batch.memo("drawn queries", compute)
    return queries


@dataclass
class Reducer:
    """Reduces chunk after chunk, ordered by example and then by row, and joins the results of each reduction."""

    batch: Batch
    names: Collection[str]
    _results: dict[str, list[list[Tensor]]] = field(default_factory=dict)

    def take(self, chunk: AttentionChunk) -> None:
        """Reduce one chunk."""
        for name in self.names:
            of_examples = self._results.setdefault(name, [])
            if not chunk.row:
                of_examples.append([])
            of_examples[-1].append(REDUCTIONS[name].compute(chunk))

    def results(self) -> Mapping[str, Tensor]:
        """The result of each reduction, for the whole batch."""
        return dict(self._joined())

    def _joined(self) -> Iterator[tuple[str, Tensor]]:
        for name, of_examples in self._results.items():
            by_query = REDUCTIONS[name].of == "query"
            yield name, torch.cat([torch.cat(p, dim=2) if by_query else torch.stack(p).sum(0) for p in of_examples])
