"""The residual stream: what a layer adds to its input, and the distribution of its output's coordinates."""

import torch
from jaxtyping import Float
from torch import Tensor

from conoscope.capture.trace import Trace
from conoscope.quantities.base import Arrays, quantity, sampled_tokens, tokens_entering
from conoscope.sums.numeric import at_least_single
from conoscope.sums.samples import Sample, no_names

STREAM = ("cosine", "residual_share", "attention_share", "forward_share", "mean", "variance", "kurtosis")
"""The values that `stream` computes for each sampled token, in this order."""
PARTS = ("before", "output", "forward")
"""The sites whose lengths the shares compare: the residual, the attention, the feed-forward part."""
DRAWN = 8
"""How many tokens of a sentence are sampled."""
PAIRS = 512
"""The number of tokens of the corpus whose vectors before and after a layer are kept."""


def _sampled_vectors(trace: Trace) -> dict[str, Float[Tensor, "n d"]]:
    """The sampled tokens' vectors at each site that the layer has, at least in single precision; cached.

    Sites of another width than the output are left out: a layer that projects its input first does not add to it.
    """

    def compute() -> dict[str, Tensor]:
        chosen = sampled_tokens(trace.batch, "real", DRAWN)
        sites = {name: getattr(trace, name) for name in (*PARTS, "hidden")}
        width = 0 if trace.hidden is None else trace.hidden.shape[-1]
        return {
            name: at_least_single(x.flatten(0, 1).index_select(0, chosen))
            for name, x in sites.items()
            if x is not None and x.shape[-1] == width
        }

    vectors: dict[str, Tensor] = trace.memo(("stream", DRAWN), compute)
    return vectors


@quantity()
def stream(trace: Trace, site: str) -> Arrays | None:
    """The values that STREAM names, of each sampled token; NaN for what the layer does not have. The site is always `hidden`."""
    sites = _sampled_vectors(trace)
    if site not in sites:
        return None
    y, norms = sites[site], {name: torch.linalg.vector_norm(x, dim=-1, keepdim=True) for name, x in sites.items()}
    none = torch.full_like(norms[site], torch.nan)
    cosine = (sites["before"] * y).sum(-1, keepdim=True) / (norms["before"] * norms[site]) if "before" in sites else none
    return (torch.cat((cosine, _shares([norms.get(part, none) for part in PARTS]), _coordinates(y)), dim=-1),)


def _shares(norms: list[Float[Tensor, "n 1"]]) -> Float[Tensor, "n 3"]:
    """The share of each part in the sum of norms, over the parts that the layer has; NaN if it has fewer than two."""
    added = torch.cat(norms, dim=-1)
    total = added.nansum(-1, keepdim=True)
    return added / total.where((~added.isnan()).sum(-1, keepdim=True) > 1, torch.nan)


def _coordinates(y: Float[Tensor, "n d"]) -> Float[Tensor, "n 3"]:
    """Mean, variance and excess kurtosis of each vector's coordinates; a constant vector has no kurtosis."""
    mean = y.mean(-1, keepdim=True)
    squares = (y - mean).square()
    variance = squares.mean(-1, keepdim=True)
    return torch.cat((mean, variance, (squares / variance).square().mean(-1, keepdim=True) - 3), dim=-1)


@quantity(sampled=True, sparse=True)
def stream_pairs(trace: Trace, so_far: Sample) -> Arrays | None:
    """The vectors of some tokens of the corpus, sampled by hash, before and after the layer."""
    if trace.before is None or trace.hidden is None or trace.before.shape != trace.hidden.shape:
        return None
    # The same tokens are chosen in every layer.
    at, ranks, groups = trace.batch.memo(("pairs", so_far.mark), lambda: tokens_entering(trace.batch, so_far, PAIRS))
    if not len(at):
        return None
    both = torch.cat([x.flatten(0, 1).index_select(0, at) for x in (trace.before, trace.hidden)], dim=-1)
    return groups, ranks, at_least_single(both), no_names(len(at), at.device), PAIRS, 1
