"""The stream: what a layer adds to what it was given, and the shape of what it leaves."""

import torch
from jaxtyping import Float
from torch import Tensor

from conoscope.capture.trace import Trace
from conoscope.quantities.base import Arrays, quantity, sampled_tokens, tokens_entering
from conoscope.sums.numeric import at_least_single
from conoscope.sums.samples import Sample, no_names

STREAM = ("cosine", "residual_share", "attention_share", "forward_share", "mean", "variance", "kurtosis")
"""What `stream` tells of each drawn token, in this order."""
PARTS = ("before", "output", "forward")
"""The sites whose lengths the shares compare: the residual, the attention, the feed-forward part."""
DRAWN = 8
"""How many tokens of a sentence are drawn."""
PAIRS = 512
"""Of how many tokens of the corpus the vectors before and after a layer are kept."""


def _drawn(trace: Trace) -> dict[str, Float[Tensor, "n d"]]:
    """The drawn tokens' vectors of each site that is there, at least in single precision, gathered once.

    A layer that was given vectors of another width maps them first: what it was given is then no part of what it leaves.
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

    found: dict[str, Tensor] = trace.memo(("stream", DRAWN), compute)
    return found


@quantity()
def stream(trace: Trace, site: str) -> Arrays | None:
    """What STREAM names, of each drawn token; NaN for what the layer does not have. The site is always `hidden`."""
    found = _drawn(trace)
    if site not in found:
        return None
    y, norms = found[site], {name: torch.linalg.vector_norm(x, dim=-1, keepdim=True) for name, x in found.items()}
    none = torch.full_like(norms[site], torch.nan)
    cosine = (found["before"] * y).sum(-1, keepdim=True) / (norms["before"] * norms[site]) if "before" in found else none
    return (torch.cat((cosine, _shares([norms.get(part, none) for part in PARTS]), _coordinates(y)), dim=-1),)


def _shares(norms: list[Float[Tensor, "n 1"]]) -> Float[Tensor, "n 3"]:
    """Of the parts that are there; NaN where there are not two to compare."""
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
    """The vectors of some tokens of the corpus, drawn by hash, as the layer was given them and as it left them."""
    if trace.before is None or trace.hidden is None or trace.before.shape != trace.hidden.shape:
        return None
    # Which tokens are chosen is the same in every layer.
    at, ranks, groups = trace.batch.memo(("pairs", so_far.mark), lambda: tokens_entering(trace.batch, so_far, PAIRS))
    if not len(at):
        return None
    both = torch.cat([x.flatten(0, 1).index_select(0, at) for x in (trace.before, trace.hidden)], dim=-1)
    return groups, ranks, at_least_single(both), no_names(len(at), at.device), PAIRS, 1
