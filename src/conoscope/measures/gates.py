"""Gates: what kind of gate each attention head is."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from math import inf

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from conoscope.common.vocabulary import GATES, MIXED
from conoscope.measures.base import Part, Reading, also_reads, reads
from conoscope.measures.needs import Need
from conoscope.quantities.gate_scores import GATE_SCORES, PLACE, ROUNDING, STRONG
from conoscope.quantities.gates import GRID
from conoscope.sums.samples import Sample

THETA = 0.01
"""A weight below this counts as none."""
OF_ALL = ("has_strong", "shared")
"""Scores of an example's strong cells that depend on the other examples."""
EXAMPLES = ("16", "64", "256")
"""The possible numbers of examples whose maps are scored."""
NEEDS = {size: Need.of(Sample, "gate_maps", examples=size) for size in EXAMPLES}

Scores = Mapping[str, Float[Tensor, "*s"]]


@dataclass(frozen=True)
class Thresholds:
    """The thresholds that classify heads as gates. They apply to scores measured before, so trying others costs nothing."""

    closed_special: float = 0.6
    closed_cell: float = THETA
    directional_column: float = 0.5
    directional_columns: float = 0.6
    directional_apart: float = 0.25
    open_entropy: float = 0.8
    open_spread: float = 5.0
    contextual_mass: float = 0.5
    cluster_mass: float = 0.3
    cluster_beyond: float = 0.1
    instance_rows: float = 0.05
    instance_shared: float = THETA / STRONG


def names_of_gates(scores: Scores, limits: Thresholds) -> dict[str, Bool[Tensor, "*s"]]:
    """For each kind of gate, whether the scores are of that kind: scores of single examples, or mean scores of a head.

    A closed gate can only be `instance` as well: its remaining weight is too small for the other kinds.
    """
    s = scores
    nowhere = _below(s["peak"], limits.closed_cell) & _within(s["length"] * limits.closed_cell, 0.5)
    closed = _reaches(s["special"], limits.closed_special) | nowhere
    even = _reaches(s["entropy"], limits.open_entropy) & _within(s["spread"], limits.open_spread)
    carried = _reaches(s["column"], limits.directional_column) | _reaches(s["columns"], limits.directional_columns)
    cluster = _reaches(s["cluster"], limits.cluster_mass) & _reaches(s["cluster_beyond"], limits.cluster_beyond)
    forward, backward = _contextual(s, limits.contextual_mass, cluster)
    few = _within(s["strong"] - (1 / s["length"]).clamp_min(limits.instance_rows), 0.0)
    kinds = {
        "directional": carried & _within(s["apart"], limits.directional_apart) & ~even,
        "open": even,
        "forward contextual": forward,
        "backward contextual": backward,
        "cluster": cluster,
    }
    instance = _reaches(s["has_strong"], 0.5) & few & _below(s["shared"], limits.instance_shared)
    return {"closed": closed, **{name: is_one & ~closed for name, is_one in kinds.items()}, "instance": instance}


def _reaches(score: Float[Tensor, "*s"], limit: float) -> Bool[Tensor, "*s"]:
    """score ≥ limit, up to rounding: one row of 12 is the same share in single and in double precision."""
    return score >= limit - ROUNDING


def _below(score: Float[Tensor, "*s"], limit: float) -> Bool[Tensor, "*s"]:
    """score < limit, by more than rounding."""
    return score < limit - ROUNDING


def _within(score: Float[Tensor, "*s"], limit: float) -> Bool[Tensor, "*s"]:
    """score ≤ limit, up to rounding."""
    return score <= limit + ROUNDING


def _contextual(s: Scores, mass: float, cluster: Bool[Tensor, "*s"]) -> tuple[Bool[Tensor, "*s"], Bool[Tensor, "*s"]]:
    """Forward and backward: each if its own mass is enough; both if each has half of that and it is not a cluster."""
    both = _reaches(s["forward"], mass / 2) & _reaches(s["backward"], mass / 2) & ~cluster
    return _reaches(s["forward"], mass) | both, _reaches(s["backward"], mass) | both


def scores_of(maps: Sample) -> dict[str, Float[Tensor, "k h"]]:
    """The scores of each sampled example, by name, in double."""
    return scores_in(maps.values)


def scores_in(values: Float[Tensor, "k values"]) -> dict[str, Float[Tensor, "k h"]]:
    """The scores by name, in double, of examples as `gate_maps` flattens them."""
    values = values.double()
    columns = values[:, :-1].unflatten(1, (-1, len(GATE_SCORES) + len(PLACE)))
    scores = dict(zip((*GATE_SCORES, *PLACE), columns.unbind(-1), strict=True))
    row, key = scores.pop("row").long(), scores.pop("key").long()
    return scores | _among_others(scores["strong"] > 0, torch.stack((row, key), dim=-1), values[:, -1].long())


def _among_others(
    strong: Bool[Tensor, "k h"], places: Int[Tensor, "k h 2"], labels: Int[Tensor, " k"]
) -> dict[str, Float[Tensor, "k h"]]:
    """Whether there are strong cells, and in what share of the other examples of the class the strongest cell is at the same
    position; NaN without a strong cell, or without another example."""
    others = (labels[:, None] == labels) & ~torch.eye(len(labels), dtype=torch.bool)
    same = (places[:, None] == places).all(-1) & strong & others[..., None]
    shared = same.sum(1).double() / others.sum(1)[:, None]
    return {"has_strong": strong.double(), "shared": shared.where(strong, torch.nan)}


def names_of_heads(maps: Sample, limits: Thresholds) -> tuple[list[str], Float[Tensor, " h"]]:
    """The gates of each head by its mean scores, and the share of examples whose own scores give the same gates."""
    return named(scores_of(maps), limits)


def named(scores: Scores, limits: Thresholds) -> tuple[list[str], Float[Tensor, " h"]]:
    """The same, from the scores (k, h) of each example."""
    each = torch.stack(list(names_of_gates(scores, limits).values()))
    whole = torch.stack(list(names_of_gates({name: x.nanmean(0) for name, x in scores.items()}, limits).values()))
    agree = (each == whole[:, None]).all(0).double().mean(0)
    names = [" + ".join(gate for gate, is_one in zip(GATES, head, strict=True) if is_one) for head in whole.T.tolist()]
    return [name or MIXED for name in names], agree


def _parts(examples: str) -> Iterator[Part]:
    yield Part({}, True, {"maps": NEEDS[examples]})


def _names_parts(examples: str) -> Iterator[Part]:
    yield Part({}, True, {"maps": NEEDS[examples]}, {"limits": Thresholds()})


@reads(_parts, within=(-inf, inf), source="after Bonino et al. 2025", examples=EXAMPLES)
def gates(maps: Sample) -> Iterator[Reading]:
    """Scores of each head's maps: what they close, spread, gather in columns, and give to neighbours, blocks and single cells.

    Means over at most 16 examples of the corpus (`examples`), sampled by hash, with at least 4 words and at most 512 tokens.
    """
    for name, values in scores_of(maps).items():
        yield _over_examples(values).with_keys(score=name)


def _over_examples(values: Float[Tensor, "k h"]) -> Reading:
    """Mean, standard deviation and number of the values that are not NaN."""
    count, mean = (~values.isnan()).sum(0), values.nanmean(0)
    spread = (values - mean).square().nansum(0) / (count - 1)
    return Reading(mean, spread.where(count > 1, torch.nan).sqrt(), count)


@also_reads("gates.names", _names_parts, within=(0, 1))
def gates_names(maps: Sample, limits: Thresholds) -> Reading:
    """The gates of each head, named from its mean scores; the value is the share of examples that give the same names."""
    names, stability = names_of_heads(maps, limits)
    count = torch.full(stability.shape, len(maps.ranks))
    return Reading(stability, torch.full_like(stability, torch.nan), count, {"gates": names})


def cells_of(maps: Sample) -> Float[Tensor, "k h g g"]:
    """The attention maps of each sampled example, on a grid."""
    cells: Tensor = maps.values.double().unflatten(1, (-1, GRID, GRID))
    return cells


def _maps_parts(examples: str) -> Iterator[Part]:
    yield Part({}, True, {"maps": Need.of(Sample, "pooled_maps", examples=examples)})


@also_reads("gates.maps", _maps_parts, within=(0, 1))
def gates_maps(maps: Sample) -> Iterator[Reading]:
    """The mean attention map of each head over the same examples, on a grid of 16 x 16 places relative to the text.

    The first and the last place are those of the first and the last token, special ones too; the tokens between share the
    others evenly. Rows (`query`) add up to 1 over `key`, both counted from 1.
    """
    each = cells_of(maps)
    for query in range(GRID):
        for key in range(GRID):
            yield _over_examples(each[:, :, query, key]).with_keys(query=query + 1, key=key + 1)
