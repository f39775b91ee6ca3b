"""By kind of token: the attention weight that it receives, and the norm of its contribution (Kobayashi et al. 2020)."""

import torch
from jaxtyping import Float, Int, Shaped
from torch import Tensor

from conoscope.capture.batch import Batch
from conoscope.capture.class_token import first_place
from conoscope.capture.draws import drawn_keys, drawn_weights
from conoscope.capture.token_kinds import SEP
from conoscope.quantities.attention import of_classifying
from conoscope.quantities.base import ALL, Arrays, quantity, real_tokens
from conoscope.quantities.cones import moments_of_lengths, of_lengths
from conoscope.quantities.reductions import kept
from conoscope.sums.drawing import Candidates
from conoscope.sums.samples import no_names

OF_KIND = ("weight", "norm", "transformed")
"""What `kind_norms` computes for each head and kind: Σ α and Σ ‖α f‖ over the keys of the kind, means over queries; mean ‖f‖."""
HEADS = ("self", "previous", "next", "first", "entropy", "entropy_cls", "sep_to_sep", "other_to_sep")
"""What `head_masses` computes for each head, in this order, before the mass on every kind."""
PAIRS = 1024
"""The number of pairs of each kind whose weight and ‖f‖ are kept."""
OCCURRENCES = 4096
"""The number of tokens whose ‖f‖ and received weight are kept, to compare with their frequency."""


def one_hot(batch: Batch, dtype: torch.dtype) -> Shaped[Tensor, "b t k"]:
    """The kind of each token, one-hot."""

    def compute() -> Tensor:
        return (batch.named[..., None] == torch.arange(len(batch.kinds), device=batch.named.device)).to(dtype)

    kinds: Tensor = batch.memo(("kinds", dtype), compute)
    return kinds


@quantity(sparse=True, run_options=("kinds",))
def kind_norms(batch: Batch, received: Float[Tensor, "l b h 2 t"], transformed: Float[Tensor, "l b h t"]) -> Arrays:
    """The values that OF_KIND names, of each text, head and kind; mean ‖f‖ is NaN where a text has no token of the kind."""
    weights, kinds = received[:, :, :, 0] / batch.length[:, None], one_hot(batch, transformed.dtype)
    weight, norm, total = (torch.stack((weights, weights * transformed, transformed), dim=2).flatten(2, 3) @ kinds).chunk(
        3, dim=2
    )
    return (torch.stack((weight, norm, total / kinds.sum(1, keepdim=True)), dim=-1),)


@quantity(sparse=True, run_options=("kinds",))
def summed_kind_norms(batch: Batch, summed: Float[Tensor, "l b k"]) -> Arrays:
    """Σ ‖Σ_h α f‖ over the keys of each kind, mean over queries, of each text.

    Computed for the special tokens and for others sampled by hash, each weighted for those it represents.
    """
    at = drawn_keys(batch)
    each = torch.arange(len(at), device=at.device)[:, None]
    weighted_kinds = one_hot(batch, summed.dtype)[each, at] * drawn_weights(batch)[..., None]
    return ((summed[:, :, None] @ weighted_kinds.to(summed.dtype))[:, :, 0],)


@quantity(sparse=True, finish=moments_of_lengths)
def transformed_lengths(batch: Batch, transformed: Float[Tensor, "l b h t"]) -> Arrays:
    """Over each text's real tokens: their number, the mean of ‖f‖, and Σ(‖f‖ - mean)²."""
    return (of_lengths(transformed.mT, kept(batch, "real", transformed.dtype)),)


@quantity(sparse=True)
def transformed_ends(batch: Batch, transformed: Float[Tensor, "l b h t"]) -> Arrays:
    """The smallest and the largest ‖f‖ of each text."""
    real = batch.real[:, None]
    ends = torch.cat((transformed.where(real, torch.inf).amin(-1), transformed.where(real, -torch.inf).amax(-1)), dim=1)
    return ends, ends.isfinite()


@quantity(run_options=("kinds",))
def head_masses(
    batch: Batch, entropy: Float[Tensor, "l b h t"], band: Float[Tensor, "l b h t 3"], received: Float[Tensor, "l b h 2 t"]
) -> Arrays:
    """The values that HEADS names, then the mass on every kind, of each text and head."""
    length, queries = batch.length, batch.real[:, None, None].to(entropy.dtype)
    rows = queries @ torch.cat((band, entropy[..., None]), dim=-1) / length[:, None, None]
    previous, self, following, mean_entropy = rows.squeeze(3).unbind(-1)
    kinds = one_hot(batch, received.dtype)
    all, by_sep = (received @ kinds[:, None]).unbind(3)
    separators = kinds[:, :, SEP].sum(1)[:, None]
    at = first_place(batch.real)[:, None, None].expand(*entropy.shape[:3], 1)
    first = received[:, :, :, 0].gather(-1, at)[..., 0]
    to_sep = ((all - by_sep)[..., SEP] / (length - separators)).where(separators > 0, torch.nan)
    values = (
        self, previous, following, first / length, mean_entropy, of_classifying(batch, entropy), by_sep[..., SEP] / separators,
        to_sep,
    )  # fmt: skip
    return (torch.cat((torch.stack(values, dim=-1), all / length[:, None]), dim=-1),)


def _by_kind(batch: Batch) -> Candidates:
    at, ranks = real_tokens(batch)
    return Candidates(batch.named.flatten()[at], ranks, at, no_names, PAIRS, ALL)


@quantity(sample=_by_kind, sparse=True, run_options=("kinds",))
def weight_norm_pairs(
    at: Int[Tensor, " n"], paired: Float[Tensor, "l n h"], transformed: Float[Tensor, "l b h t"]
) -> Float[Tensor, "l n both"]:
    """The weight of a key for one query, sampled by hash, and the key's ‖f‖, by head; for some keys of each kind."""
    return torch.cat((paired, _by_token(transformed, at)), dim=-1)


def _by_hash(batch: Batch) -> Candidates:
    at, ranks = real_tokens(batch)
    return Candidates(torch.zeros_like(ranks), ranks, at, no_names, OCCURRENCES, 1)


@quantity(sample=_by_hash, sparse=True, run_options=("frequencies",))
def frequency_pairs(
    batch: Batch, at: Int[Tensor, " n"], received: Float[Tensor, "l b h 2 t"], transformed: Float[Tensor, "l b h t"]
) -> Float[Tensor, "l n 5"]:
    """For some tokens: id, kind, rank in the given frequency list (NaN for none), and the means over heads of ‖f‖ and of the
    received weight."""
    weights = received[:, :, :, 0].mean(2, keepdim=True) / batch.length[:, None]
    means = [_by_token(x, at).double() for x in (transformed.mean(2, keepdim=True), weights)]
    rank = torch.full(batch.real.shape, torch.nan, device=at.device) if batch.frequency is None else batch.frequency
    known = torch.stack([x.flatten()[at].double() for x in (batch.inputs["input_ids"], batch.kind, rank)], dim=-1)
    return torch.cat((known.expand(len(weights), -1, -1), *means), dim=-1)


def _by_token(x: Float[Tensor, "l b h t"], at: Int[Tensor, " n"]) -> Float[Tensor, "l n h"]:
    return x.transpose(2, 3).flatten(1, 2)[:, at]


@quantity(sparse=True)
def token_counts(batch: Batch) -> Arrays:
    """The ids of all real tokens, counted once."""
    return batch.inputs["input_ids"].flatten(), batch.real.flatten()


@quantity(sparse=True, run_options=("kinds",))
def kind_counts(batch: Batch) -> Arrays:
    """The number of tokens of each kind in every text, counted once."""
    return (one_hot(batch, torch.bool).sum(1).double(),)
