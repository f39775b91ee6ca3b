"""By kind of token: the attention weight that it receives and the norm of its contribution, by head and over all heads."""

from collections.abc import Iterator, Mapping
from math import inf, nan

import torch
from jaxtyping import Float, Int
from torch import Tensor

from conoscope.capture.token_kinds import SPECIAL
from conoscope.measures.base import Part, Reading, also_reads, reads
from conoscope.measures.correlation import spearman
from conoscope.measures.needs import Need
from conoscope.quantities.kinds import HEADS, OF_KIND
from conoscope.sums.grouped import GroupedMoments
from conoscope.sums.samples import Sample
from conoscope.sums.statistics import Counts, Moments, Range

TOKENS = 32
"""How many single keys of each kind `norms.tokens` lists."""


def _parts() -> Iterator[Part]:
    needs = {"each": Need.of(GroupedMoments, "kind_norms")}
    yield Part({}, True, needs)
    yield Part({}, False, {**needs, "summed": Need.of(GroupedMoments, "summed_kind_norms")})


@reads(_parts, within=(0, inf), source="Kobayashi et al. 2020")
def norms(each: Moments, summed: Moments | None = None) -> Iterator[Reading]:
    """What is mixed in from each kind of token: Σ ‖α f(x)‖ over the keys of the kind, mean over queries and texts.

    f(x) = (x W_V + b_V) W_O of one head, and without a head ‖Σ_h α f(x)‖ of all. `share` is the kind's part of the whole,
    `weight` Σ α over the same keys, `transformed` the mean ‖f(x)‖ of the kind's tokens; without a head, means over heads.
    """
    weight, norm, f = (each.mean[..., at] for at in range(len(OF_KIND)))
    count, sd = each.count[..., OF_KIND.index("norm")], each.sd[..., OF_KIND.index("norm")]
    if summed is not None:
        weight, f = weight.mean(0, keepdim=True), f.mean(0, keepdim=True)
        norm, sd, count = (x[None] for x in (summed.mean, summed.sd, summed.count))
    total = norm.sum(-1)
    for kind in (weight.sum(0) > 0).nonzero()[:, 0].tolist():
        more = {"share": norm[:, kind] / total, "weight": weight[:, kind], "transformed": f[:, kind]}
        yield Reading(norm[:, kind], sd[:, kind], count[:, kind], more).with_keys(kind=kind)


def _dispersion_parts() -> Iterator[Part]:
    needs = {"each": Need.of(GroupedMoments, "transformed_lengths"), "ends": Need.of(Range, "transformed_ends")}
    yield Part({}, True, needs)


@also_reads("norms.dispersion", _dispersion_parts, within=(0, inf))
def dispersion(each: Moments, ends: Range) -> Reading:
    """How much ‖f(x)‖ of a head varies over tokens: its standard deviation divided by its mean, which are beside it."""
    more = {"mean": each.mean, "low": ends.low, "high": ends.high}
    return Reading(each.sd / each.mean, each.sd, each.count, more)


def _pair_parts() -> Iterator[Part]:
    for by_head in (True, False):
        yield Part({}, by_head, {"pairs": Need.of(Sample, "weight_norm_pairs")}, {"by_head": by_head})


@also_reads("norms.cancel_out", _pair_parts, within=(-1, 1), across=True)
def cancel_out(pairs: Mapping[int, Sample], by_head: bool) -> Iterator[Reading]:
    """Whether weights and norms cancel out: Spearman's correlation of α and ‖f(x)‖, by kind.

    Of at most 1,024 keys of each kind, each with a query drawn by hash: by head, of all heads of a layer, and of all layers.
    A key that no head gives any weight is hidden from the query, as in causal attention, and not counted.
    """
    of_kind: dict[int, list[Tensor]] = {}
    for layer, here in pairs.items():
        for kind, _, both in _seen_pairs(here):
            yield _correlated(both, by_head).with_keys(layer=layer, kind=kind)
            of_kind.setdefault(kind, []).append(both.transpose(1, 2).reshape(-1, 2, 1))
    for kind, parts in sorted(of_kind.items()):
        if not by_head:
            yield _correlated(torch.cat(parts), by_head).with_keys(layer=None, kind=kind)


def _seen_pairs(pairs: Sample) -> Iterator[tuple[int, Int[Tensor, " n"], Float[Tensor, "n 2 h"]]]:
    """For each kind the ranks, weights and norms of the keys that are visible to their query."""
    for kind in pairs.groups.unique().tolist():
        here = pairs.groups == kind
        both = pairs.values[here].double().unflatten(-1, (2, -1))
        seen = (both[:, 0] > 0).any(-1)
        yield kind, pairs.ranks[here][seen], both[seen]


def _correlated(both: Float[Tensor, "n 2 h"], by_head: bool) -> Reading:
    """Spearman's correlation of weights and norms, of each head, or of all together."""
    weights, norms = both.unbind(1)
    if not by_head:
        return Reading.of_one(spearman(weights.flatten(), norms.flatten()), n=weights.numel())
    values = torch.tensor([spearman(weights[:, head], norms[:, head]) for head in range(weights.shape[1])], dtype=torch.float64)
    count = torch.where(values.isnan(), 0, len(weights))
    return Reading(values, torch.full_like(values, nan), count)


def _token_parts() -> Iterator[Part]:
    yield Part({}, False, {"pairs": Need.of(Sample, "weight_norm_pairs")})


@also_reads("norms.tokens", _token_parts, within=(0, inf))
def tokens(pairs: Sample) -> Iterator[Reading]:
    """‖f(x)‖ of single keys, with the weight α that a query gives them and α ‖f(x)‖ beside it.

    At most 32 keys of each layer and kind, those with the smallest hash among the keys of `norms.cancel_out`, each with one
    query and one head, also sampled by hash.
    """
    for kind, ranks, both in _seen_pairs(pairs):
        for rank, (weights, norms) in zip(ranks[:TOKENS].tolist(), both[:TOKENS].tolist(), strict=True):
            head = rank % len(norms)
            more = {"weight": weights[head], "norm": weights[head] * norms[head]}
            yield Reading.of_one(norms[head], **more).with_keys(head=head + 1, kind=kind)


def _frequency_parts() -> Iterator[Part]:
    yield Part({}, False, {"tokens": Need.of(Sample, "frequency_pairs"), "counts": Need.of(Counts, "token_counts")})


@reads(_frequency_parts, within=(-1, 1), source="Kobayashi et al. 2020", across=True)
def frequency(tokens: Mapping[int, Sample], counts: Mapping[int, Counts]) -> Iterator[Reading]:
    """Spearman's correlation of a token's frequency rank (1 is the most frequent) with ‖f(x)‖, and with the weight it receives.

    `what`: `norm` or `weight`, means over heads, by layer and, without a layer, over all layers. `by`: frequencies counted on
    the `corpus`, or those of a `file`. `tokens`: `all`, or only those of `content`. At most 4,096 tokens, sampled by hash.
    """
    # The sample holds the same tokens in every layer.
    mean = torch.stack([here.values for here in tokens.values()]).mean(0)
    layers: dict[int | None, Tensor] = {**{layer: here.values for layer, here in tokens.items()}, None: mean}
    (counted,) = counts.values()
    for layer, values in layers.items():
        ids, kind, listed, *columns = values.unbind(-1)
        often = counted.counts[torch.searchsorted(counted.keys, ids.long())]
        for by, rank in (("corpus", -often.double()), ("file", listed)):
            for which, chosen in (("all", ~rank.isnan()), ("content", ~rank.isnan() & (kind > SPECIAL))):
                for what, x in zip(("norm", "weight"), columns, strict=True):
                    row = Reading.of_one(spearman(rank[chosen], x[chosen]), n=chosen.sum())
                    if row.n:
                        yield row.with_keys(layer=layer, what=what, by=by, tokens=which)


def _head_parts() -> Iterator[Part]:
    yield Part({}, True, {"each": Need.of(GroupedMoments, "head_masses")})


@reads(_head_parts, within=(0, inf), source="Clark et al. 2019")
def heads(each: Moments) -> Iterator[Reading]:
    """Where each head attends: the mean weight on a token itself, the previous, the next, the first, and on each kind.

    `what`: `self`, `previous`, `next`, `first`, `sep_to_sep` and `other_to_sep` (from separators, and from the others, to
    separators); `entropy` in nats, of all rows, and `entropy_cls` of the classifying token's; `kind` with the kind's name
    beside it. Means over the rows of a text, then over texts.
    """
    for at in range(each.mean.shape[-1]):
        keys = {"what": HEADS[at], "kind": -1} if at < len(HEADS) else {"what": "kind", "kind": at - len(HEADS)}
        if (each.count[..., at] > 0).any() and (at < len(HEADS) or (each.mean[..., at] > 0).any()):
            yield Reading(each.mean[..., at], each.sd[..., at], each.count[..., at]).with_keys(**keys)
