"""Reductions of attention weights, computed in chunks: some queries of some heads of some examples at a time.

The weights of long texts are never in memory at once: a chunk is computed, reduced and discarded. Results per query are
written to their place, results per key are summed.
"""

from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from typing import Literal

import torch
from jaxtyping import Float, Int
from torch import Tensor

from conoscope.capture.batch import Batch
from conoscope.capture.draws import drawn_keys, drawn_queries
from conoscope.capture.token_kinds import SEP
from conoscope.sums.numeric import at_least_single, entropy_of

BAND = (-1, 0, 1)
"""Offsets of the reduction `band`: the previous token, the token itself, the next."""
ALL = slice(None)


@dataclass(frozen=True)
class AttentionChunk:
    """Attention weights of some examples, heads, queries (`rows`) and keys (`columns`): all weights outside the columns are 0.

    `entropies`: -Σ p log p of each query, if it is known already.
    """

    weights: Float[Tensor, "b h i j"]
    batch: Batch
    examples: slice = field(default_factory=lambda: ALL)
    heads: slice = field(default_factory=lambda: ALL)
    rows: slice = field(default_factory=lambda: ALL)
    columns: slice = field(default_factory=lambda: ALL)
    entropies: Float[Tensor, "b h i"] | None = None

    @property
    def row(self) -> int:
        """The position of the first query."""
        return self.rows.start or 0

    @property
    def column(self) -> int:
        """The position of the first key."""
        return self.columns.start or 0

    def gather(self, keys: Int[Tensor, "#b #h #i k"]) -> Float[Tensor, "b h i k"]:
        """Each query's weights on some keys, given by their positions in the text; 0 outside the columns."""
        at, count = keys - self.column, self.weights.shape[-1]
        found = at_least_single(self.weights.gather(-1, at.clamp(0, count - 1).expand(*self.weights.shape[:3], -1)))
        return found if self.columns == ALL else found * ((at >= 0) & (at < count))


@dataclass(frozen=True)
class Reduction:
    """A function of a chunk, and whether its result is per query or per key (the last axis)."""

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
    return entropy_of(at_least_single(chunk.weights)) if chunk.entropies is None else chunk.entropies


@_reduction("query")
def band(chunk: AttentionChunk) -> Float[Tensor, "b h i 3"]:
    """Each query's weights on the previous token, on the token itself and on the next; 0 if there is none."""
    tokens, device = chunk.batch.real.shape[1], chunk.weights.device
    rows = torch.arange(chunk.row, chunk.row + chunk.weights.shape[2], device=device)
    at = rows[:, None] + torch.arange(BAND[0], BAND[-1] + 1, device=device)
    inside = (at >= 0) & (at < tokens)
    return chunk.gather(at.clamp(0, tokens - 1)[None, None]) * inside


@_reduction("query")
def columns(chunk: AttentionChunk) -> Float[Tensor, "b h i k"]:
    """Each query's weights on the keys that `drawn_keys` returns."""
    return chunk.gather(drawn_keys(chunk.batch)[chunk.examples, None, None])


@_reduction("key")
def received(chunk: AttentionChunk) -> Float[Tensor, "b h 2 j"]:
    """The sum of each key's weights over the real queries, and over the separator queries."""
    weights, asking = at_least_single(chunk.weights), asking_queries(chunk.batch)
    return asking[chunk.examples, None, :, chunk.rows].to(weights.dtype) @ weights


def asking_queries(batch: Batch) -> Float[Tensor, "b 2 t"]:
    """1 for each real query, else 0; and 1 for each separator query, else 0."""
    asking: Tensor = batch.memo("asking", lambda: torch.stack((batch.real, batch.kind == SEP), dim=1).float())
    return asking


@_reduction("key")
def paired(chunk: AttentionChunk) -> Float[Tensor, "b h j"]:
    """The weight of each key from one query, sampled by hash."""
    weights = chunk.weights
    at = drawn_queries(chunk.batch)[chunk.examples, None, None, chunk.columns] - chunk.row
    here = (at >= 0) & (at < weights.shape[2])
    sampled = weights.gather(2, at.clamp(0, weights.shape[2] - 1).expand(-1, weights.shape[1], -1, -1))
    return at_least_single(sampled * here)[:, :, 0]


@_reduction("key")
def classifying(chunk: AttentionChunk) -> Float[Tensor, "b h j"]:
    """The weights of the classifying token's query; 0 if there is none."""
    weights, at = chunk.weights, chunk.batch.cls[chunk.examples] - chunk.row
    here = (at >= 0) & (at < weights.shape[2])
    rows = torch.arange(len(weights), device=weights.device)
    return at_least_single(weights[rows, :, at.clamp(0, weights.shape[2] - 1)] * here[:, None, None])


@dataclass
class Reducer:
    """Reduces chunk after chunk, and puts the results of each reduction together. `shape`: examples, heads, tokens."""

    shape: tuple[int, int, int]
    names: Collection[str]
    results: dict[str, Tensor] = field(default_factory=dict)

    def take(self, chunk: AttentionChunk) -> None:
        """Reduce one chunk."""
        for name in self.names:
            found, by_query = REDUCTIONS[name].compute(chunk), REDUCTIONS[name].of == "query"
            if found.shape[:2] == self.shape[:2] and chunk.weights.shape[2:] == (self.shape[2], self.shape[2]):
                self.results[name] = found
                continue
            inner = found.shape[3:] if by_query else (*found.shape[2:-1],)
            whole = (*self.shape, *inner) if by_query else (*self.shape[:2], *inner, self.shape[2])
            if name not in self.results:
                self.results[name] = found.new_zeros(whole)
            into = self.results[name][chunk.examples, chunk.heads]
            (into[:, :, chunk.rows] if by_query else into[..., chunk.columns]).add_(found)
