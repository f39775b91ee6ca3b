"""Heads: of each head of one text its maps, entropy, cones and gates, by the functions that measure them over a corpus."""

from collections.abc import Callable, Sequence

import numpy as np
import torch
from jaxtyping import Float, UInt8
from torch import Tensor

from conoscope.capture.batch import Batch
from conoscope.capture.trace import Trace
from conoscope.explaining.matrices import normed_norms
from conoscope.explaining.rollouts import shares
from conoscope.exploring.left import Left
from conoscope.measures.gates import Thresholds, named, scores_in
from conoscope.quantities.attention import attention_entropy
from conoscope.quantities.cones import CONES, cones_of, nonzero, of_width
from conoscope.quantities.gates import fits, gate_maps
from conoscope.quantities.reductions import totals
from conoscope.quantities.transformed import transformed_norms
from conoscope.sums.numeric import at_least_single

SIM = CONES.index("sim")
THUMB = 32
"""The most cells on a side of a thumbnail."""


def weights_of(left: Left, layer: int) -> Float[Tensor, "h t t"]:
    """α of a layer; NaN where it has none."""
    trace = left.traces[layer]
    return _nothing(left, layer) if trace.weights is None else trace.weights[0].float()


def norms_of(left: Left, layer: int) -> Float[Tensor, "h t t"]:
    """‖α f(x)‖ of a layer, 0 in ablated heads; NaN where W_O was not found."""
    trace = left.mixing(layer)
    lengths = transformed_norms(trace)
    if trace.weights is None or lengths is None:
        return _nothing(left, layer)
    return (at_least_single(trace.weights[0]) * lengths[0][:, None]).float()


def residual_of(left: Left, layer: int) -> Float[Tensor, "t t"]:
    """‖g(Σ_h α f(x) + δ x)‖ as shares of each row; NaN where it cannot be followed. Kept with the trace."""
    trace = left.traces[layer]

    def compute() -> Tensor:
        mixing = left.mixing(layer)
        if "residual" not in left.warm.maps:
            return _nothing(left, layer)[0]
        return shares(normed_norms(mixing))[0].float()

    found: Tensor = trace.memo("residual shares", compute)
    return found


def _nothing(left: Left, layer: int) -> Float[Tensor, "h t t"]:
    size = len(left.words)
    return torch.full((left.warm.heads[layer - 1], size, size), torch.nan)


def by_layer(left: Left, compute: Callable[[Left, int], Tensor]) -> Float[np.ndarray, "l h *s"]:
    """What is computed of the heads of each layer, side by side; NaN for the heads that a layer has fewer."""
    found = [compute(left, trace.layer).float().cpu().numpy() for trace in left.layers]
    most = max(map(len, found))
    if all(len(x) == most for x in found):
        return np.stack(found)
    whole = np.full((len(found), most, *found[0].shape[1:]), np.nan, dtype=np.float32)
    for line, x in zip(whole, found, strict=True):
        line[: len(x)] = x
    return whole


def thumbs(left: Left) -> UInt8[np.ndarray, "l h s s"]:
    """The largest weight of each cell of a coarse grid × 255; 0 without weights."""
    size = min(THUMB, len(left.words))

    def pooled(left: Left, layer: int) -> Tensor:
        return torch.nn.functional.adaptive_max_pool2d(weights_of(left, layer).nan_to_num(0.0), size)

    return (by_layer(left, pooled) * 255).round().clip(0, 255).astype(np.uint8)


def entropy_of(left: Left, layer: int) -> Float[Tensor, " h"]:
    """Normalised entropy of each head, mean over its rows, as `attention_entropy` has it."""
    trace = left.traces[layer]
    entropy = trace.reduction("entropy")
    if entropy is None or trace.visible is None:
        return _nothing(left, layer)[:, 0, 0]
    visible = trace.visible.expand(trace.batch.real.shape)
    (mean,) = attention_entropy(trace.batch, entropy[None], entropy[None], visible[None], row="all")
    found: Tensor = mean[0, 0]
    return found


def sim_of(site: str) -> Callable[[Left, int], Float[Tensor, " h"]]:
    """SIM of the vectors of a site of each head, over all tokens; of keys and values that several heads share, that of each."""

    def compute(left: Left, layer: int) -> Tensor:
        trace, heads = left.traces[layer], left.warm.heads[layer - 1]
        sums = totals(trace, site, "real")
        if sums is None or getattr(trace, site).shape[1] > heads:
            return torch.full((heads,), torch.nan)
        lengths = trace.norms(site)[None]
        both = of_width(sums[None], lengths, "head")
        (values,) = cones_of(both @ both.mT, nonzero(trace.batch, lengths, "head", "real"))
        of_each: Tensor = values[0, 0, :, SIM]
        return of_each.repeat_interleave(heads // len(of_each))

    return compute


def gates(left: Left) -> list[list[str | None]]:
    """The gates of each head by its map of this text alone; None for texts that are too short or too long to say."""
    if not bool(fits(left.batch)[0]):
        return [[None] * heads for heads in left.warm.heads]
    return [_gates_of(trace, left.batch, heads) for trace, heads in zip(left.layers, left.warm.heads, strict=True)]


def _gates_of(trace: Trace, batch: Batch, heads: int) -> list[str | None]:
    if trace.weights is None or trace.visible is None:
        return [None] * heads
    visible, first = trace.visible.expand(batch.real.shape), torch.zeros(1, dtype=torch.long, device=batch.real.device)
    values = gate_maps(batch, first, at_least_single(trace.weights)[None], visible[None], "1")
    names: Sequence[str] = named(scores_in(values[0].cpu()), Thresholds())[0]
    return list(names)
