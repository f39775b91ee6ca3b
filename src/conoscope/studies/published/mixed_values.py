"""What [CLS] takes in: its mixture of values by its own weights, beside other mixtures of the same values, for studies.

The last layer adds Σ_h Σ_j α^h_cls,j f_h(x_j) to the vector of [CLS], with f_h(x) = (x W_V + b_V) W_O. If the weights guide the
direction of that vector, this mixture is nearer to the direction of the text's class than mixtures of the same f_h(x_j) by other
weights are: equal ones, or the same ones dealt to other tokens.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from conoscope.common.errors import CaptureError
from conoscope.corpora.base import stable_hash
from conoscope.studies.base import Row

if TYPE_CHECKING:
    from conoscope.capture.batch import Batch
    from conoscope.capture.loading import LoadedModel
    from conoscope.capture.recorder import Capture
    from conoscope.capture.trace import Trace
    from conoscope.corpora import Corpus

Weights = Float[Tensor, "b h t"]
Mask = Bool[Tensor, "b t"]
BATCH = 32


def own_weights(weights: Weights, real: Mask, read: Mask) -> Weights:
    """The weights as the model has them."""
    return weights


def equal_weights(weights: Weights, real: Mask, read: Mask) -> Weights:
    """The same weight for every token: 1 / n."""
    return (real / real.sum(-1, keepdim=True)).to(weights.dtype)[:, None].expand_as(weights)


def reversed_weights(weights: Weights, real: Mask, read: Mask) -> Weights:
    """The same weights in reverse order; that of the token that is read stays."""
    dealt = weights.clone()
    for row, others in enumerate(real & ~read):
        at = others.nonzero()[:, 0]
        dealt[row][:, at] = weights[row][:, at.flip(0)]
    return dealt


MIXTURES: Mapping[str, Callable[[Weights, Mask, Mask], Weights]] = {
    "weights": own_weights,
    "equal": equal_weights,
    "reversed": reversed_weights,
}
"""The mixtures by name: by the model's weights, and the two that they are compared with."""


@dataclass(frozen=True)
class Mixed:
    """By text: which half it is in, its class, the vector of [CLS] in the last layer, and what it takes in by each mixture."""

    half: Int[Tensor, " n"]
    gold: Int[Tensor, " n"]
    vector: Float[Tensor, "n d"]
    taken: Mapping[str, Float[Tensor, "n d"]]


def mixed_rows(model: "LoadedModel", texts: "Corpus") -> Iterator[Row]:
    """How near each mixture is to the direction of the own class and to the others, and how often the own class is nearest."""
    yield from rows_of(mixed_values(model, texts), len(model.labels))


def rows_of(mixed: Mixed, classes: int) -> Iterator[Row]:
    """The same, of mixtures that are there already."""
    directions = _directions(mixed, classes)
    for name, taken in mixed.taken.items():
        cosines = torch.einsum("nd,ncd->nc", _unit(taken), directions)
        defined = directions.abs().sum(-1) > 0
        own = torch.zeros_like(defined).scatter_(1, mixed.gold[:, None], True)
        for part, chosen in (("own", own & defined), ("other", ~own & defined)):
            if chosen.any():
                yield {"quantity": f"cosine.{part}.mixed", "mixture": name, "value": float(cosines[chosen].mean())}
        nearest = cosines.masked_fill(~defined, -2).argmax(-1)
        yield {"quantity": "nearest.mixed", "mixture": name, "value": float((nearest == mixed.gold).double().mean())}
        if name != "weights":
            turned = (_unit(mixed.taken["weights"]) * _unit(taken)).sum(-1)
            yield {"quantity": "cosine.to own mixture", "mixture": name, "value": float(turned.mean())}


def mixed_values(model: "LoadedModel", texts: "Corpus") -> Mixed:
    """The last layer's vector of [CLS] of every labelled text, and its mixtures of values."""
    from conoscope.capture.recorder import Capture

    batches: list[Mixed] = []
    with Capture(model.module, "full", reductions=(), whole=True) as capture:
        for batch in model.batcher(texts).batches(texts, BATCH):
            batches.append(_of_batch(_last_layer(model, capture, batch)))
    joined = {name: torch.cat([one.taken[name] for one in batches]) for name in MIXTURES}
    half, gold, vector = (torch.cat([getattr(one, name) for one in batches]) for name in ("half", "gold", "vector"))
    return Mixed(half, gold, vector, joined)


def _last_layer(model: "LoadedModel", capture: "Capture", batch: "Batch") -> "Trace":
    """The trace of the last layer, with whole attention weights."""
    last: list[Trace] = []

    def keep(trace: "Trace") -> None:
        last[:] = [trace]

    model.answer(batch, lambda moved: capture(moved, keep))
    return last[0]


def _of_batch(trace: "Trace") -> Mixed:
    """The rows of one batch, on the CPU in double precision: texts with a label and a token that is read."""
    from conoscope.quantities.transformed import transformed, values_of

    batch, value = trace.batch, values_of(trace)
    if value is None or trace.weights is None or trace.hidden is None:
        raise CaptureError(f"the values of layer {trace.layer}, or what follows them, cannot be followed")
    kept = (batch.label >= 0) & (batch.cls >= 0)
    at = batch.cls.clamp_min(0)
    read = torch.arange(batch.real.shape[1], device=at.device) == at[:, None]
    rows = torch.arange(len(at), device=at.device)
    weights = trace.weights[rows, :, at].to(value.dtype)

    def taken(mix: Callable[[Weights, Mask, Mask], Weights]) -> Tensor:
        by_head = torch.einsum("bht,bthe->bhe", mix(weights, batch.real, read), value)
        return transformed(by_head, trace).sum(1)[kept].double().cpu()

    half = torch.tensor([stable_hash(name) % 2 for name in batch.ids])[kept.cpu()]
    mixtures = {name: taken(mix) for name, mix in MIXTURES.items()}
    return Mixed(half, batch.label[kept].cpu(), trace.hidden[rows, at][kept].double().cpu(), mixtures)


def _directions(mixed: Mixed, classes: int) -> Float[Tensor, "n c d"]:
    """For each text, the mean direction of [CLS] by class over the other half of the texts; 0 for a class without one."""
    sums = torch.zeros(2, classes, mixed.vector.shape[1], dtype=mixed.vector.dtype)
    sums.index_put_((mixed.half, mixed.gold), _unit(mixed.vector), accumulate=True)
    return _unit(sums)[1 - mixed.half]


def _unit(x: Float[Tensor, "*s d"]) -> Float[Tensor, "*s d"]:
    norms = x.norm(dim=-1, keepdim=True)
    return torch.where(norms > 0, x / norms.clamp_min(1e-300), 0.0)
