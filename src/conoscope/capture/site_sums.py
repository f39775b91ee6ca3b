"""Site sums: what kernels sum of the vectors of all sites of a layer at once, on a GPU."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain

import torch
from jaxtyping import Float, Int
from torch import Tensor

from conoscope.capture import fused
from conoscope.capture.batch import Batch
from conoscope.capture.draws import mask_of
from conoscope.capture.fused_vectors import COLUMNS, SITES, vector_sums


@dataclass(frozen=True)
class SiteSums:
    """The sums of one site's vectors: norms by head; by mask the sums of x / ‖x‖ by head, of whole vectors (not for a site
    without heads) and of x; by mask Σ‖x - mean‖² by head."""

    lengths: Float[Tensor, "b t h"]
    totals: Mapping[str, Float[Tensor, "b k d"]]
    spreads: Mapping[str, Float[Tensor, "b h"]]


def overflows(batch: Batch) -> Int[Tensor, " b"]:
    """1 for each text of a batch in which the kernels met a vector whose norm is not finite, so far; else 0."""
    flags: Tensor = batch.memo("overflows", lambda: torch.zeros(len(batch.real), dtype=torch.int32, device=batch.real.device))
    return flags


def site_sums(
    sites: Mapping[str, Float[Tensor, "b t h e"]], batch: Batch, masks: Mapping[str, Collection[str]]
) -> dict[str, SiteSums]:
    """The sums of each site for which the kernels run; `masks`: by which masks the vectors of a site are summed.

    Sites without heads are read as if they had those of a site as wide, so that one launch reads all.
    """
    groups: dict[tuple[int, int, torch.dtype], dict[str, Tensor]] = {}
    heads = {x.shape[2] * x.shape[3]: x.shape[2:] for x in sites.values() if x.shape[2] > 1}
    for name, x in sites.items():
        if fused.runs_on(x.device, x.dtype):
            split = x
            if x.shape[2] == 1:
                width = x.shape[3]
                shape = heads.get(width) or ((width // COLUMNS, COLUMNS) if width % COLUMNS == 0 else (1, width))
                split = x[:, :, 0].unflatten(-1, tuple(shape))
            groups.setdefault((*split.shape[2:], x.dtype), {})[name] = split
    found: dict[str, SiteSums] = {}
    for group in groups.values():
        names = list(group)
        for begin in range(0, len(names), SITES):
            some = names[begin : begin + SITES]
            found |= _together(some, [group[name] for name in some], [sites[name].shape[2] == 1 for name in some], batch, masks)
    return found


def _together(
    names: Sequence[str], vectors: Sequence[Tensor], wide: Sequence[bool], batch: Batch, masks: Mapping[str, Collection[str]]
) -> dict[str, SiteSums]:
    wanted = tuple(sorted({mask for name in names for mask in masks.get(name, ())})) or ("real",)
    keep = batch.memo(("keep", wanted), lambda: torch.stack([mask_of(batch, mask) for mask in wanted]).float())
    first = batch.memo(("first", wanted), lambda: keep.argmax(-1).int())
    real = batch.memo(("keep", "real"), lambda: batch.real.float())
    asked = [[mask in masks.get(name, ()) for mask in wanted] for name in names]
    bits = sum(is_asked << at for at, is_asked in enumerate(chain.from_iterable(asked)))
    sums = vector_sums(vectors, keep, first, real, overflows(batch), bits)
    found: dict[str, SiteSums] = {}
    pairs = iter(zip(sums.totals.unbind(), sums.spreads.unbind(), strict=True))
    for place, name in enumerate(names):
        here = {mask: next(pairs) for mask, is_asked in zip(wanted, asked[place], strict=True) if is_asked}
        # Of a site without heads, heads are only parts that were summed side by side.
        lengths, first = (sums.whole[place, ..., None], 1) if wide[place] else (sums.lengths[place], 0)
        totals = {mask: totals[:, first:] for mask, (totals, _) in here.items()}
        found[name] = SiteSums(lengths, totals, {mask: spreads for mask, (_, spreads) in here.items()})
    return found
