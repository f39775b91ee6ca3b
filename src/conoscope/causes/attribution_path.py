"""The direct path: a forward pass that is affine in what its parts add to the stream, with each part's slope.

What embeddings, heads and feed-forward parts return starts anew as a tensor of its own, so that nothing flows through later
attention or feed-forward parts. What is left between a part and the logits is made affine, with the same values:

- a normalisation has the statistics that it has: whatever computes a length (`rsqrt`, `sqrt`, a norm, a variance) is a constant;
- the weights of a softmax are constants;
- a nonlinear function of single numbers becomes f(0) + z · (f(z) - f(0)) / z, its secant; at z = 0 it passes nothing on.

So the logits are Σ part · slope + Σ constant · slope over everything that is added: biases, the shifts of normalisations, tables
of positions, f(0). Functions are recognised by what torch calls them, never modules by their names. Where something else is on
the path, such as a product of two parts, the sum differs from the logits.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn
from torch.nn import functional
from torch.overrides import TorchFunctionMode

from conoscope.sums.numeric import at_least_single

STATISTICS = {"rsqrt", "sqrt", "norm", "linalg_norm", "linalg_vector_norm", "vector_norm", "var", "std", "softmax"}
"""Functions whose results are taken as constants."""
FROM_ZERO = {
    *("tanh", "relu", "relu6", "gelu", "silu", "mish", "elu", "selu", "celu", "leaky_relu", "hardtanh", "hardswish", "softsign"),
    *("erf", "prelu", "tanhshrink", "softshrink", "hardshrink"),
}
"""Nonlinear functions of single numbers with f(0) = 0."""
FROM_ABOVE = {"sigmoid", "softplus", "logsigmoid", "log_sigmoid", "hardsigmoid"}
"""Those with f(0) != 0."""
SUMS = {"add": 1, "iadd": 1, "radd": 1, "sub": -1, "subtract": -1, "isub": -1, "rsub": 1}
"""Sums, and the sign of what is added to the path."""


@dataclass(frozen=True)
class Part:
    """What is added on the path: `words`, `positions` and `types` of embeddings, a `head`, a `forward` part, a `bias`, the
    `activation` at 0; where it is added (`site`), and in which layer."""

    part: str
    site: str
    layer: int | None = None
    head: int | None = None


class DirectPath(TorchFunctionMode):
    """Context in which one forward pass over a batch is affine in its parts.

    `names`: what each table of embeddings holds; those that were not seen before are named and entered. `fed`: the layers whose
    feed-forward part is cut off from the path. `closed`: layers in which nonlinear functions pass nothing on.
    """

    def __init__(
        self,
        real: Bool[Tensor, "b t"],
        words: Tensor,
        names: dict[int, str],
        fed: frozenset[int] = frozenset(),
        closed: frozenset[int] = frozenset(),
    ) -> None:
        super().__init__()
        self.real, self.words, self.names, self.fed, self.closed = real, words, names, fed, closed
        self.layer = 0
        self.classifying = False
        """Whether the last layer's output is computed."""
        self.bent: set[int] = set()
        """The layers in which a nonlinear function is on the path."""
        self.projections: dict[int, int] = {}
        """The layers by the ids of the weights of their output projections."""
        self.parts: list[tuple[Part, Tensor]] = []
        self.constants: dict[Part, Tensor] = {}

    def begin(self, part: Part, x: Tensor) -> Tensor:
        """The tensor as a part of its own; what computed it is cut off."""
        leaf = x.detach().requires_grad_()
        self.parts.append((part, leaf))
        return leaf.clone()  # models add to it in place

    def slopes(self, total: Tensor) -> list[Tensor]:
        """The gradient of a sum of logits for each part, 0 for those that it does not depend on; constants are added up."""
        leaves = [leaf for _, leaf in self.parts]
        found = torch.autograd.grad(total, leaves, allow_unused=True) if total.requires_grad else [None] * len(leaves)
        return [torch.zeros_like(x) if slope is None else slope for x, slope in zip(leaves, found, strict=True)]

    def __torch_function__(
        self, func: Callable[..., Any], types: Sequence[type], args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        """Run the operation, or its affine form if it is on the path."""
        kwargs = kwargs or {}
        name = getattr(func, "__name__", "").strip("_")
        if name == "embedding":
            return self._embedded(func, args, kwargs)
        if not any(isinstance(x, Tensor) and x.requires_grad for x in (*args, *kwargs.values())):
            return func(*args, **kwargs)
        if "input" in kwargs:
            args, kwargs = (kwargs["input"], *args), {key: x for key, x in kwargs.items() if key != "input"}
        if name in STATISTICS:
            return func(*args, **kwargs).detach()
        if name in FROM_ZERO or name in FROM_ABOVE:
            return self._bent(func, args, kwargs)
        if name in NORMALISED:
            return self._normalised(NORMALISED[name], args, kwargs)
        result = func(*args, **kwargs)
        if name in SUMS:
            self._added(SUMS[name], args, kwargs, result)
        elif name == "linear":
            self._biased(*args[:3], **kwargs, result=result)
        elif name == "addmm" and len(args) == 3:
            self._biased(args[1], args[2], args[0], result=result)
        return result

    @property
    def inside(self) -> bool:
        """Whether nonlinear functions are within a feed-forward part, which is cut off."""
        return self.layer in self.fed and not self.classifying and self.layer not in self.closed

    def bend(self, x: Tensor, compute: Callable[[Tensor], Tensor], offset: bool) -> Tensor:
        """f(x) as its secant from 0; `offset`: whether f(0) may differ from 0."""
        if self.inside:
            return compute(x)
        self.bent.add(self.layer)
        if self.layer in self.closed and not self.classifying:
            return compute(x).detach()
        with torch.no_grad():
            y = compute(x.detach().clone())
            zero = compute(torch.zeros_like(x[..., :1, :] if x.ndim > 2 else x[:1])) if offset else None
            rise = y if zero is None else y - zero
            slope = torch.where(x == 0, 0.0, rise / torch.where(x == 0, 1.0, x))
        return x * slope if zero is None else self.constant("activation", self._site("layer"), zero, x * slope + zero)

    def constant(self, part: str, site: str, x: Tensor | float, result: Tensor) -> Tensor:
        """The sum `result`, to which a constant was added: its share of the answer will be counted."""
        if result.requires_grad:
            which = Part(part, site, None if self.classifying else self.layer)

            def take(slope: Tensor) -> None:
                found = x * slope.double()
                self.constants[which] = self.constants.get(which, 0) + self.by_token(found)

            result.register_hook(take)
        return result

    def by_token(self, x: Tensor) -> Float[Tensor, "b t"]:
        """Sums over all but texts and tokens. What has no tokens stands in the first column; what has no texts is left out."""
        rows, tokens = self.real.shape
        if x.ndim > 1 and x.shape[:2] == (rows, tokens):
            return x.flatten(2).sum(-1) if x.ndim > 2 else x
        if x.shape[0] == rows * tokens != rows:
            return x.reshape(rows, tokens, -1).sum(-1)
        if x.shape[0] != rows:
            return x.new_zeros(rows, tokens)
        return functional.pad(x.flatten(1).sum(-1, keepdim=True), (0, tokens - 1))

    def _embedded(self, func: Callable[..., Tensor], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Tensor:
        result = func(*args, **kwargs)
        ids, table = args[0], args[1] if len(args) > 1 else kwargs["weight"]
        if ids.shape != self.real.shape:
            return result  # the same for all texts, or of distances: a constant
        if id(table) not in self.names:
            self.names[id(table)] = self._held(table, ids)
        return self.begin(Part(self.names[id(table)], "embeddings", self.layer), result)

    def _held(self, table: Tensor, ids: Int[Tensor, "b t"]) -> str:
        """What a table of embeddings holds: words, positions (each one more than the one before), or types (all the same)."""
        if table is self.words:
            return "words"
        steps, both = ids[:, 1:] - ids[:, :-1], self.real[:, 1:] & self.real[:, :-1]
        if bool((steps == 1).logical_or(~both).all()):
            return "positions"
        return "types" if bool((steps == 0).logical_or(~both).all()) else "words"

    def _bent(self, func: Callable[..., Tensor], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Tensor:
        (x, *rest), name = args, func.__name__.strip("_")
        return self.bend(x, lambda z: func(z, *rest, **kwargs), name in FROM_ABOVE)

    def _normalised(self, normalise: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Tensor:
        y, shift = normalise(*args, **{"shape" if key == "normalized_shape" else key: x for key, x in kwargs.items()})
        return y if shift is None else self.constant("bias", self._site("norm"), shift, y + shift)

    def _biased(self, x: Tensor, weight: Tensor, bias: Tensor | None = None, *, result: Tensor) -> None:
        if bias is not None and not bias.requires_grad:
            self.constant("bias", self._site("output" if id(weight) in self.projections else "layer"), bias, result)

    def _added(self, sign: int, args: tuple[Any, ...], kwargs: Mapping[str, Any], result: Tensor) -> None:
        one, other = args[0], args[1] if len(args) > 1 else kwargs["other"]
        given = [x for x in (one, other) if not (isinstance(x, Tensor) and x.requires_grad)]
        if not given:
            return
        factor = kwargs.get("alpha", 1) * sign if given[0] is other else 1
        tokens = self.real.shape[1]
        places = isinstance(given[0], Tensor) and given[0].ndim > 1 and given[0].shape[-2] == tokens and self.layer == 0
        self.constant("positions" if places else "bias", self._site("layer"), factor * given[0], result)

    def _site(self, within: str) -> str:
        return "classifier" if self.classifying else within if self.layer else "embeddings"


def layer_norm(
    x: Tensor, shape: Sequence[int], weight: Tensor | None = None, bias: Tensor | None = None, eps: float = 1e-5
) -> tuple[Tensor, Tensor | None]:
    """A LayerNorm with constant statistics, and what it adds."""
    axes = tuple(range(-len(shape), 0))
    wide = at_least_single(x)
    centred = wide - wide.mean(axes, keepdim=True)
    y = centred * (centred.detach().square().mean(axes, keepdim=True) + eps).rsqrt()
    return (y if weight is None else y * weight).to(x.dtype), bias


def rms_norm(
    x: Tensor, shape: Sequence[int], weight: Tensor | None = None, eps: float | None = None
) -> tuple[Tensor, Tensor | None]:
    """The same for an RMSNorm, which adds nothing."""
    wide = at_least_single(x)
    least = torch.finfo(wide.dtype).eps if eps is None else eps
    y = wide * (wide.detach().square().mean(tuple(range(-len(shape), 0)), keepdim=True) + least).rsqrt()
    return (y if weight is None else y * weight).to(x.dtype), None


def unit_norm(x: Tensor, p: float = 2.0, dim: int = 1, eps: float = 1e-12, out: None = None) -> tuple[Tensor, Tensor | None]:
    """The same for torch's `normalize`."""
    return x / torch.linalg.vector_norm(x.detach(), p, dim, keepdim=True).clamp_min(eps), None


NORMALISED: dict[str, Callable[..., tuple[Tensor, Tensor | None]]] = {
    "layer_norm": layer_norm,
    "rms_norm": rms_norm,
    "normalize": unit_norm,
}


@contextmanager
def fixed(module: nn.Module) -> Iterator[None]:
    """Context in which parameters need no gradients, so that only what is on the path does."""
    learned = [parameter for parameter in module.parameters() if parameter.requires_grad]
    try:
        for parameter in learned:
            parameter.requires_grad_(False)
        yield
    finally:
        for parameter in learned:
            parameter.requires_grad_(True)
