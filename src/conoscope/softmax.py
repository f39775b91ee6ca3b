"""Softmax: the attention of models that never call transformers' attention interface, told by what torch computes.

Nothing is known by name here either. A mode that sees every operation follows

    query · keyᵀ → (scale, bias, mask, view) → softmax over the keys → (dropout, view, cast) → first product with the values

Only maps of every token over every token count, (b, h, t, t) or (b h, t, t): a convolution may use a softmax too (ConvBERT).
A scale that was folded into the queries (DeBERTa) or the keys (DeBERTa v2) is taken out of them again. Where several products
are added (content and relative positions), queries and keys are those of the first whose result is such a map.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any

from jaxtyping import Float, Int
from torch import Tensor
from torch.overrides import TorchFunctionMode
from torch.utils.weak import WeakTensorKeyDictionary

from conoscope.calls import Attended

PRODUCTS = {"matmul", "bmm", "baddbmm", "einsum"}
VIEWS = {"view", "reshape", "flatten", "unflatten", "transpose", "permute", "swapaxes", "contiguous", "expand", "unsqueeze"}
CASTS = {"to", "type", "type_as", "float", "half", "bfloat16", "double", "clone", "detach"}
SCALES = {"mul", "div", "truediv", "true_divide", "rmul"}
FILLS = {"add", "iadd", "radd", "sub", "isub", "imul", "idiv", "itruediv", "masked_fill", "where", "max", "maximum", "clamp"}
CARRIES = {*VIEWS, *CASTS, *SCALES, *FILLS, "dropout"}
SUNK = 1000
"""A mask sinks scores at least so far below the largest of their row, and nothing else does in every head."""

_PAUSED: ContextVar[bool] = ContextVar("conoscope_paused", default=False)


@dataclass(frozen=True)
class Followed:
    """One attention that was followed: what it mixed, with which weights, from which scores."""

    attended: Attended
    weights: Float[Tensor, "b h t t"]
    scores: Float[Tensor, "b h t t"]

    def visible(self) -> Int[Tensor, "b t"]:
        """How many keys each query may see."""
        return (self.scores >= self.scores.amax(-1, keepdim=True) - SUNK).any(1).sum(-1)


Pair = tuple[Float[Tensor, "b h t e"], Float[Tensor, "b g t e"]]
Term = tuple[Tensor, str]
"""A factor of a product, or its result, and a letter for each of its axes."""


@dataclass
class _Softmax:
    """What a softmax read, the queries and keys behind it, and whether its weights have met their values."""

    scores: Float[Tensor, "b h t t"]
    pair: Pair | None
    met: bool = False


@contextmanager
def paused() -> Iterator[None]:
    """Within it nothing is followed: what we compute of a layer is no attention of the model."""
    token = _PAUSED.set(True)
    try:
        yield
    finally:
        _PAUSED.reset(token)


class Following(TorchFunctionMode):
    """Within it, every attention over these rows and tokens is told, as soon as its context is there."""

    def __init__(self, shape: Sequence[int], tell: Callable[[Followed], None]) -> None:
        super().__init__()
        (self.rows, self.tokens), self.tell = shape, tell
        # Weak, so that following keeps no map longer than the model does.
        self._unscaled, self._pairs, self._softmaxes = (WeakTensorKeyDictionary() for _ in range(3))

    def __torch_function__(
        self, func: Callable[..., Any], types: Sequence[type], args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        """Compute what was asked for, and see what it was."""
        result = func(*args, **(kwargs or {}))
        if isinstance(result, Tensor) and not _PAUSED.get():
            self._saw(func, args, kwargs or {}, result)
        return result

    def _saw(self, func: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any], result: Tensor) -> None:
        name = getattr(func, "__name__", "").strip("_")
        given = [x for x in (*args, *kwargs.values()) if isinstance(x, Tensor)]
        if name == "softmax" and self._is_map(result) and given:
            self._softmaxes[result] = _Softmax(self._by_head(given[0]), self._pairs.get(given[0]))
        elif name in PRODUCTS:
            self._multiplied(_terms(args, given, result))
        elif name in CARRIES:
            for known in (self._pairs, self._softmaxes):
                if carried := next((known[x] for x in given if x in known), None):
                    known[result] = carried
        if name in SCALES and args[0] is not result and _is_scaled(args, result):
            self._unscaled[result] = given[0] if given[0].ndim else given[1]
        elif name in VIEWS and given and given[0] in self._unscaled:
            self._unscaled[result] = func(self._unscaled[given[0]], *args[1:], **kwargs)

    def _multiplied(self, terms: tuple[Term, Term, Term] | None) -> None:
        if terms is None:
            return
        left, right, (result, letters) = terms
        for (weights, axes), values in ((left, right), (right, left)):
            softmax: _Softmax | None = self._softmaxes.get(weights)
            if softmax is not None and not softmax.met and self._is_map(weights):
                self._mixed(softmax, (weights, axes), values, (result, letters))
                return
        if self._is_map(result) and (pair := self._scored(left, right, letters)) is not None:
            self._pairs[result] = pair

    def _mixed(self, softmax: _Softmax, weights: Term, values: Term, context: Term) -> None:
        *heads, query, key = list(weights[1])
        width = _width([*heads, key], values, [*heads, query], context)
        if width is None:
            return
        softmax.met = True
        queries, keys = softmax.pair or (None, None)
        value = self._by_head(_arranged(values, [*heads, key, width]))
        # A copy, since some models add to it in place (Nyströmformer).
        mixed = self._by_head(_arranged(context, [*heads, query, width])).transpose(1, 2).clone()
        self.tell(Followed(Attended(queries, keys, value, mixed), self._by_head(weights[0]), softmax.scores))

    def _scored(self, left: Term, right: Term, letters: str) -> Pair | None:
        """Queries and keys of a product: the factors with its last two axes, without their scale; None where the factors are
        no vectors by head, one for each query and one for each key (what XLNet adds for the two texts of a pair)."""
        *heads, query, key = list(letters)
        queries, keys = (left, right) if query in left[1] else (right, left)
        width = _width([*heads, query], queries, [*heads, key], keys)
        if width is None:
            return None
        return self._side(queries, [*heads, query, width]), self._side(keys, [*heads, key, width])

    def _side(self, term: Term, order: list[str]) -> Tensor:
        return self._by_head(_arranged((self._unscaled.get(term[0], term[0]), term[1]), order))

    def _is_map(self, x: Tensor) -> bool:
        """Whether it holds a number for every token over every token, in each head of each row."""
        rows = x.shape[0] == self.rows if x.ndim == 4 else x.ndim == 3 and x.shape[0] % self.rows == 0
        return rows and x.shape[-2:] == (self.tokens, self.tokens)

    def _by_head(self, x: Tensor) -> Float[Tensor, "b h i j"]:
        return x if x.ndim == 4 else x.unflatten(0, (self.rows, -1))


def _is_scaled(args: tuple[Any, ...], result: Tensor) -> bool:
    """Whether a tensor was multiplied or divided by one number."""
    return sum(isinstance(x, Tensor) and x.ndim > 0 for x in args) == 1 and len(args) == 2 and result.ndim > 0


def _terms(args: tuple[Any, ...], given: list[Tensor], result: Tensor) -> tuple[Term, Term, Term] | None:
    """Both factors and the result with letters for their axes; None for a product of other than two maps or vectors by head."""
    if isinstance(args[0], str):
        equation = args[0].replace(" ", "")
    else:
        given, heads = given[-2:], "abc"[: result.ndim - 2]
        equation = f"{heads}ie,{heads}ej->{heads}ij"
    inputs, _, output = equation.partition("->")
    letters = [*inputs.split(","), output]
    if len(given) != 2 or [len(x) for x in letters] != [x.ndim for x in (*given, result)] or result.ndim not in (3, 4):
        return None
    first, second, third = zip((*given, result), letters, strict=True)
    return first, second, third


def _width(axes: list[str], term: Term, other_axes: list[str], other: Term) -> str | None:
    """The letter of the one axis that both terms have beside these axes; None where they have others, or lack one."""
    beside, beside_other = set(term[1]) - set(axes), set(other[1]) - set(other_axes)
    whole = len(term[1]) == len(axes) + 1 and len(other[1]) == len(other_axes) + 1
    return next(iter(beside)) if whole and beside == beside_other and len(beside) == 1 else None


def _arranged(term: Term, order: list[str]) -> Tensor:
    tensor, letters = term
    return tensor.permute([letters.index(letter) for letter in order])
