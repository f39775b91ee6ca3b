"""Plain attention, softmax(scale · q kᵀ + mask): our own computation, in chunks that fit into a CPU's caches.

Used where a model's own attention was found to be no more than that (`beyond_plain`). It is faster than a model's eager function:
the entropy comes from the scores without a logarithm of each weight, chunks cover several heads of several texts, and keys that
no query of a chunk may see (outside a sliding window, after a causal query) are left out.
"""

import math
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from conoscope.capture.batch import Batch
from conoscope.capture.calls import AttentionCall
from conoscope.capture.reductions import AttentionChunk, Reducer

CHUNK = {"cpu": 2**20, "cuda": 2**27}
"""How many weights are computed at once: on a CPU about as many as fit its caches, on a GPU few beside a model."""
BLOCK = 256
"""How many queries are computed at once if some keys are hidden: a block of queries then skips the keys that none of it may
see."""
LONG = 4 * BLOCK
"""Hidden keys are looked for in texts of at least this many tokens; in shorter ones that costs more than it saves."""


@dataclass(frozen=True)
class PlainAttention:
    """The arguments of one attention call. `mask`: which keys each query may see, None for all; `causal`: only earlier keys."""

    query: Float[Tensor, "b h t e"]
    key: Float[Tensor, "b g t e"]
    value: Float[Tensor, "b g t e_v"]
    mask: Bool[Tensor, "#b #h t t"] | None
    causal: bool
    scale: float

    def attend(
        self, names: Collection[str], batch: Batch, context: bool = True
    ) -> tuple[Float[Tensor, "b t h e_v"] | None, dict[str, Tensor]]:
        """The context, unless `context` is False, and the named reductions of the weights."""
        rows, heads, tokens = self.query.shape[:3]
        single = torch.promote_types(self.query.dtype, torch.float32)
        query, value, key = (self._by_query_head(x, single) for x in (self.query, self.value, self.key))
        query, value, key = query.flatten(0, 1), value.flatten(0, 1), key.mT.flatten(0, 1)
        mixed = value.new_empty(value.shape) if context else None
        reducer = Reducer((rows, heads, tokens), names)
        memory: tuple[Tensor, Tensor] | None = None
        hidden = self._hidden(batch)
        for examples, some, queries, keys in self._chunks():
            maps = slice(examples.start * heads + some.start, (examples.stop - 1) * heads + some.stop)
            shape = (maps.stop - maps.start, queries.stop - queries.start, keys.stop - keys.start)
            # Scores and weights of every chunk lie in the same memory, which stays in the caches.
            if memory is None or math.prod(shape) > len(memory[0]):
                memory = query.new_empty(math.prod(shape)), query.new_empty(math.prod(shape))
            scores, weights = (x[: math.prod(shape)].view(shape) for x in memory)
            # In this order, and not scaled beforehand, the numbers are those of a model's eager attention to the last bit.
            torch.bmm(query[maps, queries], key[maps, :, keys], out=scores)
            scores.mul_(self.scale)
            by_head = (examples.stop - examples.start, some.stop - some.start, *shape[1:])
            self._hide(scores.view(by_head), examples, some, queries, keys, hidden)
            torch.softmax(scores, -1, out=weights)
            if mixed is not None:
                mixed[maps, queries] = weights @ value[maps, keys]
            entropies = _entropies(scores, weights).view(by_head[:3]) if "entropy" in names else None
            reducer.take(AttentionChunk(weights.view(by_head), batch, examples, some, queries, keys, entropies))
        found = None if mixed is None else mixed.unflatten(0, (rows, heads)).transpose(1, 2).to(self.value.dtype).contiguous()
        return found, reducer.results

    def _by_query_head(self, x: Float[Tensor, "b g t e"], dtype: torch.dtype) -> Float[Tensor, "b h t e"]:
        """Vectors of each query head; with grouped queries, heads share keys and values."""
        shared = self.query.shape[1] // x.shape[1]
        return (x if shared == 1 else x.repeat_interleave(shared, dim=1)).to(dtype)

    def maps(self, examples: Int[Tensor, " n"], size: int) -> Float[Tensor, "n h s s"]:
        """The weights of some examples, whose first `size` tokens have all that is not padding."""
        every = slice(0, size)
        mask = self.mask if self.mask is None or len(self.mask) == 1 else self.mask[examples]
        mask = None if mask is None else mask[..., every, every]
        query, key, value = (x[examples, :, every] for x in (self.query, self.key, self.value))
        part = replace(self, query=query, key=key, value=value, mask=mask)
        single, count = torch.promote_types(self.query.dtype, torch.float32), len(examples)
        query, key = (part._by_query_head(x, single) for x in (part.query, part.key))
        scores = (query @ key.mT).mul_(self.scale)
        part._hide(scores, slice(0, count), slice(0, scores.shape[1]), every, every)
        return torch.softmax(scores, -1)

    def _hidden(self, batch: Batch) -> list[tuple[int, int]] | None:
        """Of each example the first key that any query may not see, and the end of the last one; None if that is not looked for.

        Padding hides a few keys at one end, and hiding takes as long as a product of matrices where it passes over all of them.
        """
        mask = self.mask
        if mask is None or mask.device.type != "cpu":
            return None

        def compute() -> tuple[Tensor, list[tuple[int, int]]]:
            by_key = ~(mask[:, :, 0] if mask.stride(2) == 0 else mask.all(2)).all(1)
            none, tokens = ~by_key.any(-1), by_key.shape[-1]
            first, last = by_key.byte().argmax(-1), tokens - by_key.flip(-1).byte().argmax(-1)
            spans = torch.stack((first.where(~none, tokens), last.where(~none, 0)), dim=-1)
            # Keeps the mask alive, so that no other mask can get its id.
            return mask, [(begin, end) for begin, end in spans.tolist()]

        found: tuple[Tensor, list[tuple[int, int]]] = batch.memo(("hidden", id(mask)), compute)
        return found[1]

    def _hide(
        self,
        scores: Float[Tensor, "b h i j"],
        examples: slice,
        heads: slice,
        queries: slice,
        keys: slice,
        hidden: Sequence[tuple[int, int]] | None = None,
    ) -> None:
        """Lower the scores of hidden keys to the lowest number, in place. `hidden`: where they are in each example, if known."""
        lowest = torch.finfo(scores.dtype).min
        if self.causal:
            places = torch.arange(max(queries.stop, keys.stop), device=scores.device)
            scores.masked_fill_(places[keys] > places[queries, None], lowest)
        if self.mask is not None:
            mask = self.mask if len(self.mask) == 1 else self.mask[examples]
            mask = mask if mask.shape[1] == 1 else mask[:, heads]
            if hidden is not None:
                spans = hidden if len(self.mask) == 1 else hidden[examples]
                begin = max(keys.start, min(begin for begin, _ in spans))
                end = min(keys.stop, max(end for _, end in spans))
                if begin >= end:
                    return
                scores, keys = scores[..., begin - keys.start : end - keys.start], slice(begin, end)
            scores.masked_fill_(~mask[..., queries, keys], lowest)

    def _chunks(self) -> Iterator[tuple[slice, slice, slice, slice]]:
        """The examples, heads, queries and keys of each chunk."""
        batch, heads, tokens = self.query.shape[:3]
        room = max(1, CHUNK.get(self.query.device.type, CHUNK["cuda"]) // tokens**2)
        # A GPU would wait to say which keys are hidden.
        hides = self.query.device.type == "cpu" and tokens >= LONG and (self.causal or self.mask is not None)
        together, some = min(batch, max(1, room // heads)), min(heads, room)
        length = tokens if room > 1 else max(1, CHUNK.get(self.query.device.type, CHUNK["cuda"]) // tokens)
        length = min(length, tokens, BLOCK if hides else tokens)
        for example in range(0, batch, together):
            for head in range(0, heads, some):
                for row in range(0, tokens, length):
                    examples, queries = slice(example, min(example + together, batch)), slice(row, min(row + length, tokens))
                    keys = self._seen(examples, queries) if hides else slice(0, tokens)
                    yield examples, slice(head, min(head + some, heads)), queries, keys

    def _seen(self, examples: slice, queries: slice) -> slice:
        """From the first to the last key that any of these queries may see."""
        end = queries.stop if self.causal else self.query.shape[2]
        if self.mask is None:
            return slice(0, end)
        mask = self.mask if len(self.mask) == 1 else self.mask[examples]
        seen = mask[..., queries, :end].flatten(0, -2).any(0).nonzero()[:, 0]
        return slice(int(seen[0]), int(seen[-1]) + 1) if len(seen) else slice(0, end)

    def attended(self, context: Float[Tensor, "b t h e_v"]) -> AttentionCall:
        """The attention call with this context."""
        return AttentionCall(self.query, self.key, self.value, context)


def _entropies(scores: Float[Tensor, "n i j"], weights: Float[Tensor, "n i j"]) -> Float[Tensor, "n i"]:
    """-Σ p log p of each row, as Σ p (top - score) - log p(top): neither term is negative, so nothing cancels, and large scores
    lose nothing. Overwrites the scores."""
    apart = scores.sub_(scores.amax(-1, keepdim=True)).mul_(weights).sum(-1)
    return weights.amax(-1).log_().add_(apart).neg_()
