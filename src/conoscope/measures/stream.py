"""The residual stream: how each layer changes it."""

from collections.abc import Iterator, Mapping
from math import inf, nan

import torch
from jaxtyping import Float
from torch import Tensor

from conoscope.measures.base import Part, Reading, also_reads, reads
from conoscope.measures.needs import Need
from conoscope.quantities.stream import STREAM
from conoscope.sums.grouped import GroupedMoments
from conoscope.sums.samples import Sample
from conoscope.sums.statistics import Directions, Moments


def _parts() -> Iterator[Part]:
    needs = {"each": Need.of(GroupedMoments, "stream", site="hidden"), "pairs": Need.of(Sample, "stream_pairs")}
    yield Part({"site": "hidden"}, False, needs)


@reads(_parts, within=(-inf, inf), source="after Bonino et al. 2025; CKA: Kornblith et al. 2019, Song et al. 2012")
def stream(each: Moments, pairs: Sample | None = None) -> Iterator[Reading]:
    """What each layer does to the residual stream: how far it turns it, the share of each of its parts, and its coordinates.

    x is the layer's input, a and m what attention and the feed-forward part add, y the layer's output. `what`: `cosine` of x
    and y; `residual_share`, `attention_share`, `forward_share`, the lengths of x, a and m divided by their sum; `mean`,
    `variance` and excess `kurtosis` of y's coordinates; `cka`, linear and without bias, of x and y. Means over at most 8 tokens
    of each sentence, sampled by hash; CKA over at most 512 tokens of the corpus.
    """
    for at, what in enumerate(STREAM):
        if each.count[at]:
            here = slice(at, at + 1)
            yield Reading(each.mean[here], each.sd[here], each.count[here]).with_keys(what=what)
    if pairs is not None:
        x, y = pairs.values.double().chunk(2, dim=-1)
        yield Reading.of_one(cka(x, y), n=len(x)).with_keys(what="cka")


def cka(x: Float[Tensor, "n d"], y: Float[Tensor, "n d"]) -> float:
    """Unbiased linear CKA: H(K, L) / √(H(K, K) H(L, L)) of K = x xᵀ and L = y yᵀ; NaN for fewer than four vectors.

    H is the estimator of HSIC that is unbiased for any number of vectors (Song et al. 2012).
    """
    if len(x) < 4:
        return nan
    k, m = ((z @ z.T).fill_diagonal_(0) for z in (x - x.mean(0), y - y.mean(0)))
    own = _hsic(k, k) * _hsic(m, m)
    return float(_hsic(k, m) / own.sqrt()) if own > 0 else nan


def _hsic(k: Float[Tensor, "n n"], m: Float[Tensor, "n n"]) -> Float[Tensor, ""]:
    """HSIC of Gram matrices with a zero diagonal, up to a factor that cancels in CKA."""
    n = len(k)
    return (k * m).sum() + k.sum() * m.sum() / ((n - 1) * (n - 2)) - 2 / (n - 2) * (k.sum(0) * m.sum(0)).sum()


def _path_parts() -> Iterator[Part]:
    yield Part({"site": "hidden"}, False, {"sums": Need.of(Directions, "class_directions", site="hidden")})


@also_reads("stream.path", _path_parts, within=(-1, 1), across=True)
def path(sums: Mapping[int, Directions]) -> Iterator[Reading]:
    """The path of the vector that stands for a text: its mean cosine, layer by layer, with the class means of the last layer.

    `towards` the example's `own` class, or the `other` classes. The class means are those of the other half of the corpus.
    """
    last = sums[max(sums)]
    ends = last.unit.flip(0).where(last.count.flip(0)[..., None] > 0, torch.nan)
    for layer, here in sums.items():
        if here.units.shape == ends.shape:
            cosines, defined = torch.einsum("hgd,hcd->hgc", here.units, ends), ~ends[:, None, :, 0].isnan()
            own = torch.eye(ends.shape[1], dtype=torch.bool)
            for towards, chosen in (("own", own), ("other", ~own)):
                count = (here.count[..., None] * (defined & chosen)).sum()
                value = cosines.where(defined & chosen, 0.0).sum() / count
                yield Reading.of_one(value, n=count).with_keys(layer=layer, towards=towards)
