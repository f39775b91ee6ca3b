"""Method: a named way to say how much each token of a text counts; what it needs of a pass over a batch, and its options."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from jaxtyping import Float
from torch import Tensor
from transformers import PreTrainedModel

from conoscope.batches import Batch
from conoscope.errors import MeasureError, OverflowedError, one_of
from conoscope.options import options_of, read_options


@dataclass(frozen=True)
class Passed:
    """What one pass over a batch left for the methods.

    `logits` are there for a classifier. `readers` says from which tokens a map is read: 1 at the one that is classified
    from, 1/n at every real one where the model takes their mean. `matrices` holds a (query, key) matrix for each layer, by
    kind (see `matrices.py`); both are there where a method asked for matrices.
    """

    module: PreTrainedModel
    batch: Batch
    logits: Float[Tensor, "b c"] | None
    readers: Float[Tensor, "b t"] | None
    matrices: Mapping[str, Sequence[Float[Tensor, "b t t"]]]

    def layers(self, kind: str) -> Sequence[Float[Tensor, "b t t"]]:
        """A matrix for each layer, the first layer first."""
        return self.matrices[kind]

    def read(self, matrix: Float[Tensor, "b t t"]) -> Float[Tensor, "b t"]:
        """The row of the token that is classified from, or the mean over the rows."""
        assert self.readers is not None
        return (self.readers.to(matrix.dtype)[:, None] @ matrix)[:, 0]


Compute = Callable[..., Float[Tensor, "b t"]]


@dataclass(frozen=True)
class Method:
    """A named function of a pass: the kinds of matrices it needs, its options (the first value is the default), its source."""

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
    """Enter a function into METHODS under its own name."""

    def enter(compute: Compute) -> Compute:
        name = compute.__name__.removesuffix("_map")
        METHODS[name] = Method(name, compute, needs, choices, source)
        return compute

    return enter


@dataclass(frozen=True)
class Asked:
    """A method with its options chosen, as in `attention` or `attention:layer=1`; `name` is what was written."""

    name: str
    method: Method
    options: Mapping[str, str]

    def scores(self, passed: Passed) -> Float[Tensor, "b t"]:
        """One score for each token; NaN on pads. Refused where one is no number: slopes overflow where answers do not."""
        found, real = self.method.compute(passed, **self.options), passed.batch.real
        sound = (found.isfinite() | ~real).all(-1)
        if not bool(sound.all()):
            which, example = f"{self.name} of {type(passed.module).__name__}", passed.batch.ids[int((~sound).nonzero()[0])]
            raise OverflowedError.of(which, example, passed.module.dtype)
        return found.masked_fill(~real, math.nan)


def asked(text: str) -> Asked:
    """The method and options that a text such as `attention:layer=1` asks for."""
    name, _, given = text.partition(":")
    if name not in METHODS:
        raise MeasureError(f"no map {name!r}; known maps: {one_of(METHODS)}")
    method = METHODS[name]
    usual = {key: values[0] for key, values in method.choices.items()}
    return Asked(text, method, {**usual, **read_options(f"the map {name}", given, method.choices)})


def layer_of(matrices: Sequence[Float[Tensor, "b t t"]], layer: str) -> Float[Tensor, "b t t"]:
    """The matrix of a layer: the last one, or by number from 1."""
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
