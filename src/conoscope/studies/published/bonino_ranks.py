"""Ranks of what attention computes, sums and products, and cones of its parts, on a few texts; singular values of weights.

Theorem 4.2.1 bounds the rank of a sum by the sum of ranks, and the rank of a product is at most that of each factor. So of Q Kᵀ,
whose rank is at most a head's width e, the sum with its transpose has at most twice its rank; softmax, which is neither sum nor
product, may have any rank; and what a head computes, softmax times V, has again at most that of V.
"""

from collections import defaultdict
from collections.abc import Iterator, Sequence
from math import log
from statistics import fmean

import torch
from jaxtyping import Float
from torch import Tensor

from conoscope.capture.head_weights import head_weights_of
from conoscope.capture.loading import LoadedModel
from conoscope.capture.recorder import Capture
from conoscope.capture.trace import Trace
from conoscope.corpora import Corpus
from conoscope.quantities.directionality import one_thread, singular_values, tolerance, values_with_transpose
from conoscope.studies.base import Row

TEXTS = 4
"""Number of texts whose ranks are computed."""
EPS = torch.finfo(torch.float32).eps
"""The rounding of the vectors, which a model computes in single precision."""
SPACES = ("query", "key", "value")
Found = dict[tuple[str, int], list[float]]
"""The values of each quantity in each layer, one per text."""


def ranks(model: LoadedModel, texts: Corpus) -> Iterator[Row]:
    """By layer: mean rank over heads of queries, keys, values, scores, scores plus their transpose, softmax and what a head
    computes; rank of the heads side by side and of the layer's output; entropy of the squared singular values of softmax; cone
    index / n, and mean length, of the heads side by side and of what the feed-forward part adds.

    Over all layers: these ranks as shares of the largest possible ones.
    """
    found: Found = defaultdict(list)
    some = texts.first(TEXTS)
    with Capture(model.module, "full", reductions=(), whole=True) as capture, one_thread():
        # One text at a time: nothing is padded.
        for batch in model.batcher(some).batches(some, 1):
            capture(batch.to(model.device), lambda trace: _note(trace, found))
    for (quantity, layer), values in found.items():
        if not quantity.startswith("share."):
            yield {"quantity": quantity, "layer": layer, "value": fmean(values)}
    for share in dict.fromkeys(quantity for quantity, _ in found if quantity.startswith("share.")):
        yield {"quantity": share, "value": fmean(fmean(values) for (name, _), values in found.items() if name == share)}


def largest(model: LoadedModel, layer: int, head: int) -> Iterator[Row]:
    """The largest singular values of the weights by which a head computes its queries, keys and values."""
    weights = next(one for one in head_weights_of(model.module) if one.layer == layer)
    for space in SPACES:
        matrices: Tensor | None = getattr(weights, space)
        if matrices is not None and head <= len(matrices):
            yield {"quantity": f"largest.{space}", "value": float(torch.linalg.svdvals(matrices[head - 1])[0])}


def _note(trace: Trace, found: Found) -> None:
    """Add the values of one text in one layer."""
    sides = (trace.query, trace.key, trace.value, trace.weights, trace.context)
    given = [x[0].double().cpu() for x in sides if x is not None]
    whole, hidden = trace.whole("context"), trace.hidden
    if len(given) < len(sides) or whole is None or hidden is None:
        return
    for name, value in _counted([*given, whole[0].double().cpu(), hidden[0].double().cpu()]).items():
        found[name, trace.layer].append(value)
    for name, x in (("concatenated", whole), ("forward", trace.forward)):
        if x is not None:
            found[f"cone.{name}", trace.layer].append(_cone(x[0].double().cpu()))
            found[f"length.{name}", trace.layer].append(float(x[0].double().norm(dim=-1).mean()))


def _counted(sides: Sequence[Tensor]) -> dict[str, float]:
    """Ranks of one text in one layer, these as shares of the largest possible ones, and the entropy of softmax."""
    q, k, v, weights, context, whole, hidden = sides
    scores, by_head = singular_values(q, k), torch.linalg.svdvals(weights)
    least = tolerance(scores, q, k, EPS)
    both = values_with_transpose(q, k)
    counted = {"query": rank(q), "key": rank(k), "value": rank(v), "scores": _above(scores, least),
               "sum": _above(both, 2 * least), "softmax": rank(weights), "context": rank(context),
               "concatenated": rank(whole), "hidden": rank(hidden)}  # fmt: skip
    most = {"value": min(v.shape[-2:]), "softmax": weights.shape[-1], "context": min(context.shape[-2:]),
            "hidden": min(hidden.shape)}  # fmt: skip
    return {
        **{f"ranks.{name}": value for name, value in counted.items()},
        **{f"share.rank.{name}": counted[name] / largest for name, largest in most.items()},
        "entropy.softmax": float(_entropy(by_head).mean()),
    }


def rank(x: Float[Tensor, "*h n m"]) -> float:
    """The mean rank of matrices: the singular values above rounding."""
    values = torch.linalg.svdvals(x)
    return _above(values, values.amax(-1, keepdim=True) * (max(x.shape[-2:]) * EPS))


def _above(values: Float[Tensor, "*h k"], least: Float[Tensor, "*h 1"]) -> float:
    return float((values > least).sum(-1).double().mean())


def _entropy(s: Float[Tensor, "h k"]) -> Float[Tensor, " h"]:
    """The entropy of p = s² / Σ s², divided by the log of their number; 0 for a single one."""
    p = s.square() / s.square().sum(-1, keepdim=True)
    found: Tensor = torch.special.entr(p).sum(-1)
    return found / max(log(s.shape[-1]), EPS)


def _cone(x: Float[Tensor, "t d"]) -> float:
    """The length of the sum of the unit vectors, divided by their number."""
    return float(torch.nn.functional.normalize(x, dim=-1).sum(0).norm() / len(x))
