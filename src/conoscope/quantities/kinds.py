"""By kind: what each kind of token is given by attention, as weight and as what is mixed in (Kobayashi et al. 2020)."""

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
"""What `kind_norms` tells of each head and kind: Σ α and Σ ‖α f‖ over the keys of the kind, means over queries; mean ‖f‖."""
HEADS = ("self", "previous", "next", "first", "entropy", "entropy_cls", "sep_to_sep", "other_to_sep")
"""What `head_masses` tells of each head, in this order, before the mass of every kind."""
PAIRS = 1024
"""Of how many pairs of each kind the weight and ‖f‖ are kept."""
OCCURRENCES = 4096
"""Of how many tokens ‖f‖ and the weight that they receive are kept, for their frequency."""


def one_hot(batch: Batch, dtype: torch.dtype) -> Shaped[Tensor, "b t k"]:
    """1 where a token is of a kind."""

    def compute() -> Tensor:
        return (batch.named[..., None] == torch.arange(len(batch.kinds), device=batch.named.device)).to(dtype)

    found: Tensor = batch.memo(("kinds", dtype), compute)
    return found


def received_weights(trace: Trace) -> Float[Tensor, "b h t"] | None:
    """The mean over a text's real queries of the weight that each key is given."""
    found = trace.reduction("received")
    return None if found is None else trace.memo("received", lambda: found[:, :, 0] / _length(trace.batch)[:, None])


def _length(batch: Batch) -> Int[Tensor, "b 1"]:
    found: Tensor = batch.memo("length", lambda: batch.real.sum(-1, keepdim=True))
    return found


@quantity(reductions=("received",), sparse=True, run_options=("kinds",))
def kind_norms(trace: Trace) -> Arrays | None:
    """What OF_KIND names, of each text, head and kind; no mean ‖f‖ where a text has no token of the kind."""
    weights, norms = received_weights(trace), transformed_norms(trace)
    if weights is None or norms is None:
        return None
    kinds = one_hot(trace.batch, norms.dtype)
    weight, norm, total = (torch.stack((weights, weights * norms, norms), dim=1).flatten(1, 2) @ kinds).chunk(3, dim=1)
    return (torch.stack((weight, norm, total / kinds.sum(1, keepdim=True)), dim=-1),)


@quantity(reductions=("columns",), sparse=True, run_options=("kinds",))
def summed_kind_norms(trace: Trace) -> Arrays | None:
    """Σ ‖Σ_h α f‖ over the keys of each kind, mean over queries, of each text: of the special tokens and of others drawn by
    hash, each of which stands for several."""
    value, weights, batch = values_of(trace), trace.reduction("columns"), trace.batch
    if value is None or weights is None:
        return None
    at = drawn_keys(batch)
    rows = torch.arange(len(at), device=at.device)[:, None]
    f = transformed(value[rows, at].flatten(0, 1), trace)
    norms = summed_norms(weights.permute(0, 3, 1, 2).flatten(0, 1), f).unflatten(0, at.shape)
    asked = norms.where(batch.real[:, None], 0.0).sum(-1) / _length(batch)
    standing = one_hot(batch, norms.dtype)[rows, at] * drawn_weights(batch)[..., None]
    return ((asked[:, None] @ standing.to(asked.dtype))[:, 0],)


@quantity(sparse=True, finish=moments_of_lengths)
def transformed_lengths(trace: Trace) -> Arrays | None:
    """Of ‖f‖ of each text's real tokens: how many, the mean, and Σ(‖f‖ - mean)²."""
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
    """What HEADS names, and the mass of every kind, of each text and head."""
    entropy, band, received = (trace.reduction(name) for name in ("entropy", "band", "received"))
    if entropy is None or band is None or received is None:
        return None
    batch, length = trace.batch, _length(trace.batch)
    asking = batch.real[:, None, None].to(entropy.dtype)
    previous, self, following, mean_entropy = (
        (asking @ torch.cat((band, entropy[..., None]), dim=-1) / length[:, None, None]).squeeze(2).unbind(-1)
    )
    kinds = one_hot(batch, received.dtype)
    all, by_sep = (received @ kinds[:, None]).unbind(2)
    separators = kinds[:, :, SEP].sum(1)[:, None]
    first = received[:, :, 0].gather(-1, first_place(batch.real)[:, None, None].expand(-1, received.shape[1], 1))[..., 0]
    to_sep = ((all - by_sep)[..., SEP] / (length - separators)).where(separators > 0, torch.nan)
    run_options = (
        self, previous, following, first / length, mean_entropy, of_classifying(trace, entropy), by_sep[..., SEP] / separators,
        to_sep,
    )  # fmt: skip
    return (torch.cat((torch.stack(run_options, dim=-1), all / length[:, None]), dim=-1),)


@quantity(reductions=("paired",), sampled=True, sparse=True, run_options=("kinds",))
def weight_norm_pairs(trace: Trace, so_far: Sample) -> Arrays | None:
    """The weight that a query, drawn by hash, gives to a key, and the key's ‖f‖, by head; of some keys of each kind."""
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
    """Of some tokens: id, kind, rank in the list that was given (NaN for none), mean over heads of ‖f‖ and of the weight that
    they receive."""
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
    """The ids of all real tokens, told once, with the first layer."""
    if trace.layer != 1:
        return None
    return (trace.batch.inputs["input_ids"].flatten(), trace.batch.real.flatten())


@quantity(sparse=True, run_options=("kinds",))
def kind_counts(trace: Trace) -> Arrays | None:
    """How many tokens of each kind every text has, told once, with the first layer."""
    return None if trace.layer != 1 else (one_hot(trace.batch, torch.float64).sum(1),)
