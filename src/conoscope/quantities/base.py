"""Reductions and quantities: the two kinds of function between a captured layer and a sum.

A *reduction* takes one layer of one batch while its tensors exist, and returns a small array of it: the norms of its vectors, the
entropy of its attention rows. A *quantity* takes such arrays, stacked over layers, and returns what a statistic sums. Each says
what it reads by the names of its parameters:

    from jaxtyping import Float
    from torch import Tensor
    from conoscope.capture.batch import Batch
    from conoscope.capture.trace import Trace
    from conoscope.quantities.base import Arrays, quantity, reduction

    @reduction()
    def sizes(trace: Trace, site: str) -> Float[Tensor, "b t h"] | None:
        return None if getattr(trace, site) is None else trace.norms(site)

    @quantity()
    def longest(batch: Batch, sizes: Float[Tensor, "l b t h"]) -> Arrays:
        return (sizes.where(batch.real[..., None], 0.0).amax(2),)

A parameter of a quantity that has the name of a reduction receives it, with an axis of layers in front; one with a default
receives None in layers that lack it. `batch` is the batch, `answer` the prediction, `at` the tokens or examples that it is about,
`scope` a cache that all quantities of these layers share, `slots` the need and layer of each place of the stack; all other
parameters are options. What a quantity returns has layers first, items second.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from inspect import Parameter, signature
from typing import Any

import torch
from jaxtyping import Bool, Int
from torch import Tensor

from conoscope.capture.batch import Batch
from conoscope.capture.trace import HeadWeights, PooledOutput, Trace
from conoscope.sums.drawing import Candidates

ALL = 2**62
"""No limit on the number of groups in a sample."""
MASKS = ("published", "real", "content")

Arrays = tuple[Any, ...]
"""The arguments of a statistic's `of`: tensors with layers on the first axis and items on the second, then what all items
share."""
Subject = Trace | PooledOutput | HeadWeights
Options = Mapping[str, str]


@dataclass(frozen=True)
class Reduction:
    """A named function of one layer of one batch.

    `of`: a Trace, or the PooledOutput that is known after the pass. `weights`: the reductions of attention weights that it reads
    (`maps`: the whole weights of some examples). `constant`: it depends on the model only, so it is computed once.
    """

    name: str
    compute: Callable[..., Any]
    of: type[Subject]
    weights: tuple[str, ...]
    constant: bool

    @cached_property
    def parameters(self) -> tuple[str, ...]:
        """Its parameters after the layer: options, and `at`, the tokens or examples that are asked for."""
        return tuple(signature(self.compute).parameters)[1:]

    @cached_property
    def of_some(self) -> bool:
        """Whether it is computed for some tokens or examples only."""
        return "at" in self.parameters


@dataclass(frozen=True)
class Quantity:
    """A named function of reductions.

    `of`: HeadWeights or PooledOutput for a function of that subject, one layer at a time, which returns a statistic; else None.
    `tokens`: a function of a batch and options to the flat indices of the tokens that it is about. `sample`: a function of a
    batch and options to candidates for a sample of the corpus; it then sees only those that are chosen, and returns their values.
    `sparse`: it may return None for some layers. `finish`: a function of the arrays of several batches, concatenated; it returns
    the arguments of the statistic, or the statistic itself. For a sample, `finish` is a function of the values of one batch, of
    the batch and of the chosen candidates, all in the CPU's memory. `run_options`: the options of a run that it reads, `kinds` or
    `frequencies`. `postponed`: its sample is of a few examples, which a GPU runs in batches of their own after
    the corpus is read.
    """

    name: str
    compute: Callable[..., Any]
    of: type[Subject] | None = None
    tokens: Callable[..., Int[Tensor, " n"]] | None = None
    sample: Callable[..., Candidates] | None = None
    sparse: bool = False
    finish: Callable[..., Any] | None = None
    run_options: tuple[str, ...] = ()
    postponed: bool = False

    @cached_property
    def parameters(self) -> Mapping[str, Parameter]:
        """The parameters of its function."""
        return signature(self.compute).parameters

    @cached_property
    def reads(self) -> dict[str, Reduction]:
        """The reductions that it reads, by the name of its parameter: `output_rows` is `rows` of the site `output`."""
        return {} if self.of else {name: found for name in self.parameters if (found := _reduction_of(name)) is not None}

    @cached_property
    def weights(self) -> set[str]:
        """The reductions of attention weights that must be captured for it."""
        own = {"maps"} if self.of is PooledOutput else set()
        return own | {name for reduction in self.reads.values() for name in reduction.weights}

    @cached_property
    def of_pooled(self) -> bool:
        """Whether its sample is of examples that have a pooled vector."""
        return self.sample is not None and "there" in signature(self.sample).parameters

    def is_optional(self, parameter: str) -> bool:
        """Whether it can be computed without this reduction."""
        return self.parameters[parameter].default is None


REDUCTIONS: dict[str, Reduction] = {}
QUANTITIES: dict[str, Quantity] = {}
ROWS = "_rows"


def _reduction_of(parameter: str) -> Reduction | None:
    return REDUCTIONS.get("rows" if parameter.endswith(ROWS) else parameter)


def site_of(parameter: str, options: Options) -> str | None:
    """The site that a parameter of a quantity reads: named before `_rows`, or the option `site`."""
    return parameter.removesuffix(ROWS) if parameter.endswith(ROWS) else options.get("site")


def reduction(
    of: type[Subject] = Trace, weights: tuple[str, ...] = (), constant: bool = False
) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Decorator that registers a function in REDUCTIONS under its own name."""

    def register(compute: Callable[..., Any]) -> Callable[..., Any]:
        REDUCTIONS[compute.__name__] = Reduction(compute.__name__, compute, of, weights, constant)
        return compute

    return register


def quantity(
    of: type[Subject] | None = None,
    tokens: Callable[..., Int[Tensor, " n"]] | None = None,
    sample: Callable[..., Candidates] | None = None,
    sparse: bool = False,
    finish: Callable[..., Any] | None = None,
    run_options: tuple[str, ...] = (),
    postponed: bool = False,
) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Decorator that registers a function in QUANTITIES under its own name; see Quantity for the arguments."""

    def register(compute: Callable[..., Any]) -> Callable[..., Any]:
        QUANTITIES[compute.__name__] = Quantity(
            compute.__name__, compute, of, tokens, sample, sparse, finish, run_options, postponed
        )
        return compute

    return register


def resolve_mask(mask: str, site: str) -> str:
    """The mask to use at a site: `published` is `content` for hidden states and `real` elsewhere."""
    return {"hidden": "content"}.get(site, "real") if mask == "published" else mask


def real_tokens(batch: Batch) -> tuple[Int[Tensor, " n"], Int[Tensor, " n"]]:
    """The real tokens of a batch in the CPU's memory, as flat indices, and their ranks; cached."""

    def compute() -> tuple[Tensor, Tensor]:
        at = batch.real.flatten().nonzero()[:, 0]
        return at, batch.token_ranks.flatten()[at]

    found: tuple[Tensor, Tensor] = batch.memo("real tokens", compute)
    return found


def some_examples(batch: Batch, fitting: Bool[Tensor, " b"], names: Callable[[Tensor], Tensor], size: int) -> Candidates:
    """Candidates for a sample of `size` examples: the rows of a batch in the CPU's memory where `fitting` holds."""
    rows = fitting.nonzero()[:, 0]
    ranks = batch.example_ranks[rows]
    return Candidates(torch.zeros_like(ranks), ranks, rows, names, size, 1)
