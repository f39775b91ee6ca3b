"""By kind of token: the attention weight that it receives, and the norm of its contribution (Kobayashi et al. 2020)."""

import torch
from jaxtyping import Float, Int, Shaped
from torch import Tensor

from conoscope.capture.batch import Batch
from conoscope.capture.class_token import first_place
from conoscope.capture.reductions import drawn_keys, drawn_weights
from conoscope.capture.token_kinds import SEP
from conoscope.capture.trace import Trace
from conoscope.quantities.attention import of_classifying
from conoscope.quantities.base import ALL, Arrays, quantity, tokens_entering
from conoscope.quantities.cones import kept, moments_of_lengths, of_lengths
from conoscope.quantities.transformed import summed_norms, transformed, transformed_norms, values_of
from conoscope.sums.samples import Sample, no_names

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


def received_weights(trace: Trace) -> Float[Tensor, "b h t"] | None:
    """The weight that each key receives, mean over a text's real queries."""
    received = trace.reduction("received")
    return None if received is None else trace.memo("received", lambda: received[:, :, 0] / _length(trace.batch)[:, None])


def _length(batch: Batch) -> Int[Tensor, "b 1"]:
    length: Tensor = batch.memo("length", lambda: batch.real.sum(-1, keepdim=True))
    return length


@quantity(reductions=("received",), sparse=True, run_options=("kinds",))
def kind_norms(trace: Trace) -> Arrays | None:
    """The values that OF_KIND names, of each text, head and kind; mean ‖f‖ is NaN where a text has no token of the kind."""
    weights, norms = received_weights(trace), transformed_norms(trace)
    if weights is None or norms is None:
        return None
    kinds = one_hot(trace.batch, norms.dtype)
    weight, norm, total = (torch.stack((weights, weights * norms, norms), dim=1).flatten(1, 2) @ kinds).chunk(3, dim=1)
    return (torch.stack((weight, norm, total / kinds.sum(1, keepdim=True)), dim=-1),)


@quantity(reductions=("columns",), sparse=True, run_options=("kinds",))
def summed_kind_norms(trace: Trace) -> Arrays | None:
    """Σ ‖Σ_h α f‖ over the keys of each kind, mean over queries, of each text.

    Computed for the special tokens and for others sampled by hash, each weighted for those it represents.
    """
    value, weights, batch = values_of(trace), trace.reduction("columns"), trace.batch
    if value is None or weights is None:
        return None
    at = drawn_keys(batch)
    rows = torch.arange(len(at), device=at.device)[:, None]
    f = transformed(value[rows, at].flatten(0, 1), trace)
    norms = summed_norms(weights.permute(0, 3, 1, 2).flatten(0, 1), f).unflatten(0, at.shape)
    by_key = norms.where(batch.real[:, None], 0.0).sum(-1) / _length(batch)
    weighted_kinds = one_hot(batch, norms.dtype)[rows, at] * drawn_weights(batch)[..., None]
    return ((by_key[:, None] @ weighted_kinds.to(by_key.dtype))[:, 0],)


@quantity(sparse=True, finish=moments_of_lengths)
def transformed_lengths(trace: Trace) -> Arrays | None:
    """Over each text's real tokens: their number, the mean of ‖f‖, and Σ(‖f‖ - mean)²."""
    norms = transformed_norms(trace)
    return None if norms is None else (of_lengths(norms.transpose(1, 2), kept(trace, "real", norms.dtype)),)


@quantity(sparse=True)
def transformed_ends(trace: Trace) -> Arrays | None:
    """The smallest and the largest ‖f‖ of each text."""
    norms, real = transformed_norms(trace), trace.batch.real[:, None]
    if norms is None:
        return None
    ends = torch.cat((norms.where(real, torch.inf).amin(-1), norms.where(real, -torch.inf).amax(-1)))
    return ends, ends.isfinite()


@quantity(reductions=("entropy", "band", "received"), run_options=("kinds",))
def head_masses(trace: Trace) -> Arrays | None:
    """The values that HEADS names, then the mass on every kind, of each text and head."""
    entropy, band, received = (trace.reduction(name) for name in ("entropy", "band", "received"))
    if entropy is None or band is None or received is None:
        return None
    batch, length = trace.batch, _length(trace.batch)
    queries = batch.real[:, None, None].to(entropy.dtype)
    previous, self, following, mean_entropy = (
        (queries @ torch.cat((band, entropy[..., None]), dim=-1) / length[:, None, None]).squeeze(2).unbind(-1)
    )
    kinds = one_hot(batch, received.dtype)
    all, by_sep = (received @ kinds[:, None]).unbind(2)
    separators = kinds[:, :, SEP].sum(1)[:, None]
    first = received[:, :, 0].gather(-1, first_place(batch.real)[:, None, None].expand(-1, received.shape[1], 1))[..., 0]
    to_sep = ((all - by_sep)[..., SEP] / (length - separators)).where(separators > 0, torch.nan)
    values = (
        self, previous, following, first / length, mean_entropy, of_classifying(trace, entropy), by_sep[..., SEP] / separators,
        to_sep,
    )  # fmt: skip
    return (torch.cat((torch.stack(values, dim=-1), all / length[:, None]), dim=-1),)


@quantity(reductions=("paired",), sampled=True, sparse=True, run_options=("kinds",))
def weight_norm_pairs(trace: Trace, so_far: Sample) -> Arrays | None:
    """The weight of a key for one query, sampled by hash, and the key's ‖f‖, by head; for some keys of each kind."""
    weights, norms = trace.reduction("paired"), transformed_norms(trace)
    if weights is None or norms is None:
        return None
    batch = trace.batch
    at, ranks, groups = batch.memo(("pairs of kinds", so_far.mark), lambda: tokens_entering(batch, so_far, PAIRS, batch.named))
    if not len(at):
        return None
    both = torch.cat([_by_token(x, at) for x in (weights, norms)], dim=-1)
    return groups, ranks, both, no_names(len(at), at.device), PAIRS, ALL


@quantity(reductions=("received",), sampled=True, sparse=True, run_options=("frequencies",))
def frequency_pairs(trace: Trace, so_far: Sample) -> Arrays | None:
    """For some tokens: id, kind, rank in the given frequency list (NaN for none), and the means over heads of ‖f‖ and of the
    received weight."""
    weights, norms = received_weights(trace), transformed_norms(trace)
    if weights is None or norms is None:
        return None
    batch = trace.batch
    at, ranks, groups = batch.memo(("tokens by frequency", so_far.mark), lambda: tokens_entering(batch, so_far, OCCURRENCES))
    if not len(at):
        return None
    rank = torch.full(batch.real.shape, torch.nan, device=at.device) if batch.frequency is None else batch.frequency
    known = [x.flatten()[at].double() for x in (batch.inputs["input_ids"], batch.kind, rank)]
    means = [_by_token(x.mean(1, keepdim=True), at)[:, 0].double() for x in (norms, weights)]
    return groups, ranks, torch.stack((*known, *means), dim=-1), no_names(len(at), at.device), OCCURRENCES, 1


def _by_token(x: Float[Tensor, "b h t"], at: Int[Tensor, " n"]) -> Float[Tensor, "n h"]:
    return x.transpose(1, 2).flatten(0, 1)[at]


@quantity(sparse=True)
def token_counts(trace: Trace) -> Arrays | None:
    """The ids of all real tokens, counted once, in the first layer."""
    if trace.layer != 1:
        return None
    return (trace.batch.inputs["input_ids"].flatten(), trace.batch.real.flatten())


@quantity(sparse=True, run_options=("kinds",))
def kind_counts(trace: Trace) -> Arrays | None:
    """The number of tokens of each kind in every text, counted once, in the first layer."""
    return None if trace.layer != 1 else (one_hot(trace.batch, torch.float64).sum(1),)
