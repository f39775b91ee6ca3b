"""Method: a named attribution method, which scores each token of a text; what it needs from a forward pass, and its options."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from jaxtyping import Float
from torch import Tensor
from transformers import PreTrainedModel

from conoscope.capture.batch import Batch
from conoscope.common.errors import MeasureError, OverflowedError, one_of
from conoscope.common.keywords import nearest
from conoscope.common.options import options_of, read_options


@dataclass(frozen=True)
class ForwardPass:
    """The outputs of one forward pass over a batch that the methods read.

    `logits`: None where the model is no classifier. `readers`: the weight of each token's row when a map is read: 1 at the token
    that the classifier reads, 1/n at each real token where the model takes their mean. `matrices`: by kind (see `matrices.py`),
    one (query, key) matrix a layer. `readers` and `matrices` are filled only if a method needs matrices. `check` is called
    between the steps of slow methods, which it may end by raising.
    """

    module: PreTrainedModel
    batch: Batch
    logits: Float[Tensor, "b c"] | None
    readers: Float[Tensor, "b t"] | None
    matrices: Mapping[str, Sequence[Float[Tensor, "b t t"]]]
    check: Callable[[], None] = lambda: None

    def layers(self, kind: str) -> Sequence[Float[Tensor, "b t t"]]:
        """One matrix a layer, from the first layer to the last."""
        return self.matrices[kind]

    def read(self, matrix: Float[Tensor, "b t t"]) -> Float[Tensor, "b t"]:
        """The row of the token that the classifier reads, or the mean over the real rows."""
        assert self.readers is not None
        return (self.readers.to(matrix.dtype)[:, None] @ matrix)[:, 0]


Compute = Callable[..., Float[Tensor, "b t"]]


@dataclass(frozen=True)
class Method:
    """An attribution method: a named function of a forward pass.

    `needs`: the kinds of matrices it reads. `choices`: the values of each option, the default first. `source`: the paper.
    """

    name: str
    compute: Compute
    needs: tuple[str, ...]
    choices: Mapping[str, tuple[str, ...]]
    source: str

    @property
    def summary(self) -> str:
        """The first line of its docstring."""
        return (self.compute.__doc__ or "").strip().splitlines()[0]


METHODS: dict[str, Method] = {}


def explains(source: str, *needs: str, **choices: tuple[str, ...]) -> Callable[[Compute], Compute]:
    """Decorator that registers a function in METHODS under its own name."""

    def register(compute: Compute) -> Compute:
        name = compute.__name__.removesuffix("_map")
        METHODS[name] = Method(name, compute, needs, choices, source)
        return compute

    return register


@dataclass(frozen=True)
class Request:
    """A method with its options chosen, as in `attention` or `attention:layer=1`; `name` is that text."""

    name: str
    method: Method
    options: Mapping[str, str]

    def scores(self, forward: ForwardPass) -> Float[Tensor, "b t"]:
        """One score a token; NaN on pads.

        Raises OverflowedError if a score is not finite: gradients can overflow where logits do not.
        """
        scores, real = self.method.compute(forward, **self.options), forward.batch.real
        finite = (scores.isfinite() | ~real).all(-1)
        if not bool(finite.all()):
            which, example = f"{self.name} of {type(forward.module).__name__}", forward.batch.ids[int((~finite).nonzero()[0])]
            raise OverflowedError.of(which, example, forward.module.dtype)
        return scores.masked_fill(~real, math.nan)


def request(text: str) -> Request:
    """The method and options that a text such as `attention:layer=1` names."""
    name, _, given = text.partition(":")
    if name not in METHODS:
        raise MeasureError(f"no map {name!r}{nearest(name, METHODS)}; known maps: {one_of(METHODS)}")
    method = METHODS[name]
    defaults = {key: values[0] for key, values in method.choices.items()}
    return Request(text, method, {**defaults, **read_options(f"the map {name}", given, method.choices)})


def layer_of(matrices: Sequence[Float[Tensor, "b t t"]], layer: str) -> Float[Tensor, "b t t"]:
    """The matrix of one layer: `last`, or a number that counts from 1."""
    number = len(matrices) if layer == "last" else int(layer)
    if number > len(matrices):
        raise MeasureError(f"no layer {number} to take a map from: the model has {len(matrices)}; count from 1, or say last")
    return matrices[number - 1]


def described() -> str:
    """What `conoscope list maps` prints."""
    return "\n".join(
        f"{method.name}\n  {method.summary}\n  options: {options_of(method.choices)}; {method.source}"
        for method in METHODS.values()
    )
