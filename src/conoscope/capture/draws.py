"""Draws: tokens sampled by the hash of their example and position.

What is drawn depends on ids and positions alone, so it is the same in every layer, however a corpus is cut into batches, and it
is chosen in the CPU's memory before a batch runs: a GPU never waits for a choice.
"""

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from conoscope.capture.batch import Batch
from conoscope.capture.class_token import first_place
from conoscope.sums.grouped import GROUPS
from conoscope.sums.numeric import mixed

DRAWN = 16
"""How many tokens of a text are sampled, besides its special ones, if all would be too many."""
LAST = torch.iinfo(torch.int64)


def mask_of(batch: Batch, mask: str) -> Bool[Tensor, "b t"]:
    """A mask of the tokens that count: all real ones, or only content."""
    return {"real": batch.real, "content": batch.content}[mask]


def sampled_tokens(batch: Batch, mask: str, size: int) -> Int[Tensor, " n"]:
    """The `size` tokens of each text with the smallest hash, among those that count, as flat indices in the batch."""

    def compute(host: Batch) -> Tensor:
        keep = mask_of(host, mask)
        if size >= keep.shape[1]:
            return keep.flatten().nonzero()[:, 0]
        ranks = host.token_ranks.where(keep, LAST.max)
        where = ranks.topk(size, largest=False).indices
        return _flat(where, keep.shape[1])[keep.gather(1, where)]

    return batch.drawn(("sampled tokens", mask, size), compute)


def groups_of(batch: Batch, at: Int[Tensor, " n"] | None = None) -> Int[Tensor, " items"]:
    """The group of each text, by the hash of its id; or of the text of each of some tokens, which are flat indices in the
    batch."""
    groups = batch.drawn("groups", lambda host: host.example_ranks % GROUPS)
    return groups if at is None else groups[at // batch.real.shape[1]]


def keep_on_host(batch: Batch, sent: Int[Tensor, " n"], host: Int[Tensor, " n"]) -> None:
    """Remember what was sent to the batch's device: it can be read without waiting."""
    if sent is not host:
        batch.memo(("on host", id(sent)), lambda: (sent, host))


def extent_of(batch: Batch, examples: Int[Tensor, " n"]) -> int:
    """The number of positions up to the last real token of any of some examples."""
    rows = batch.cache[("on host", id(examples))][1] if ("on host", id(examples)) in batch.cache else examples
    real = batch.on_host.real[rows].any(0).nonzero()
    return int(real.max()) + 1 if len(real) else batch.real.shape[1]


def drawn_keys(batch: Batch) -> Int[Tensor, "b k"]:
    """Positions of each text's special tokens, and of the DRAWN others with the smallest hash; if a text has fewer, other
    positions fill the row."""

    def compute(host: Batch) -> Tensor:
        ranks = host.token_ranks.where(host.real, LAST.max).where(~host.special, LAST.min)
        size = min(DRAWN + int(host.special.sum(-1).max()), ranks.shape[-1])
        return ranks.topk(size, largest=False).indices

    return batch.drawn("drawn keys", compute)


def drawn_weights(batch: Batch) -> Float[Tensor, "b k"]:
    """How many tokens of its text each sampled key represents; 0 for positions that only fill a row."""

    def compute(host: Batch) -> Tensor:
        special = host.special.sum(-1, keepdim=True)
        others = host.real.sum(-1, keepdim=True) - special
        place = torch.arange(drawn_keys(host).shape[1])
        share = others / others.clamp(1, DRAWN)
        return torch.where(place < special, 1.0, share.where(place < special + others.clamp_max(DRAWN), 0.0)).double()

    return batch.drawn("drawn weights", compute)


def drawn_places(batch: Batch) -> Int[Tensor, " n"]:
    """The sampled keys as flat indices in the batch, without positions that only fill a row."""

    def compute(host: Batch) -> Tensor:
        return _flat(drawn_keys(host), host.real.shape[1])[drawn_weights(host) > 0]

    return batch.drawn("drawn places", compute)


def drawn_among_keys(batch: Batch) -> Int[Tensor, " n"]:
    """Where the drawn places are in the flattened rows of `drawn_keys`."""
    return batch.drawn("drawn among keys", lambda host: (drawn_weights(host) > 0).flatten().nonzero()[:, 0])


def drawn_queries(batch: Batch) -> Int[Tensor, "b t"]:
    """For each token, a query of the same text, sampled by the token's hash."""

    def compute(host: Batch) -> Tensor:
        return first_place(host.real)[:, None] + mixed(host.token_ranks) % host.real.sum(-1, keepdim=True).clamp_min(1)

    return batch.drawn("drawn queries", compute)


def _flat(places: Int[Tensor, "b k"], tokens: int) -> Int[Tensor, "b k"]:
    """Positions in each text as indices in the flattened batch."""
    return torch.arange(len(places))[:, None] * tokens + places
