"""One pass of an editor: its edits, where it begins, what is kept of it."""

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor, nn

from conoscope.capture.batch import Batch
from conoscope.capture.calls import Call
from conoscope.causes.edits import Edit, Site

Place = tuple[Site, int]
"""A site of a layer."""
Start = tuple[int, int]
"""The highest layer whose hidden state is known, and the layer whose attention is known."""
NOTHING: Start = (-1, 0)
"""Where a whole pass begins."""


@dataclass(frozen=True)
class Kept:
    """What a plain pass over a batch left: the answer, the vectors of some sites, and what the spans of layers and of attentions
    returned."""

    batch: Batch
    answer: Float[Tensor, "..."]
    vectors: Mapping[Place, Float[Tensor, "b t d"]]
    layers: Mapping[int, Any]
    attentions: Mapping[int, Any]


@dataclass
class Pass:
    """The state of one pass. `copies`: how many copies of the rows that were `before` it runs."""

    shape: torch.Size
    edits: Mapping[Place, Sequence[Edit]] = field(default_factory=dict)
    start: Start = NOTHING
    before: Kept | None = None
    copies: int = 1
    keeps: Collection[Place] = ()
    keeps_spans: bool = False
    counts: Counter[nn.Module] = field(default_factory=Counter)
    vectors: dict[Place, Tensor] = field(default_factory=dict)
    layers: dict[int, Any] = field(default_factory=dict)
    attentions: dict[int, Any] = field(default_factory=dict)
    done: set[Place] = field(default_factory=set)

    def number(self, module: nn.Module) -> Call:
        """The call of a module that has begun and has not ended."""
        return module, self.counts[module] - 1

    def take(self, place: Place, x: Tensor, heads: int) -> Tensor:
        """The tensor of a site, edited; its vectors are kept if the pass keeps them."""
        edits, keeps = self.edits.get(place, ()), place in self.keeps
        if not edits and not keeps:
            return x
        by_token = x.reshape(*self.shape, -1)
        if keeps:
            self.vectors[place] = by_token if torch.is_grad_enabled() else by_token.clone()
        self.done.add(place)
        for edit in edits:
            by_token = edit.applied(by_token, heads)
        # With gradients the model goes on with what is kept.
        return by_token.reshape(x.shape)

    def repeated(self, returned: Any) -> Any:
        """A copy of what a call returned, for all copies: models add to tensors in place."""
        if isinstance(returned, Tensor):
            return returned.repeat(self.copies, *[1] * (returned.ndim - 1)) if returned.ndim else returned.clone()
        return with_items(returned, map(self.repeated, returned)) if isinstance(returned, (tuple, list)) else returned


def with_items(returned: Any, items: Iterable[Any]) -> Any:
    """A tuple, named tuple or list of the same type with other items."""
    return type(returned)(*items) if hasattr(returned, "_fields") else type(returned)(items)


def with_first(returned: Any, first: Tensor) -> Any:
    """What a call returned, with another first tensor."""
    return first if isinstance(returned, Tensor) else with_items(returned, (first, *returned[1:]))


def start_of(edits: Sequence[Edit]) -> Start:
    """Where a pass with these edits may begin: a layer ends with its hidden state, and other sites are after its attention."""
    if not edits:
        return NOTHING
    layer = min(edit.layer for edit in edits)
    ends = all(edit.site == "hidden" for edit in edits if edit.layer == layer)
    return (layer, 0) if ends else (layer - 1, layer)


def of_copy(edit: Edit, rows: int, copy: int) -> Edit:
    """An edit of rows of a batch as one of the same rows of a copy."""
    begin, end, _ = edit.rows.indices(rows)
    return Edit(edit.site, edit.layer, edit.change, edit.head, slice(copy * rows + begin, copy * rows + end))


@contextmanager
def computing(module: nn.Module, compute: Any) -> Iterator[None]:
    """Context in which a module's forward is `compute(module, forward, args, kwargs)`."""
    before, own = module.forward, "forward" in module.__dict__

    def forward(*args: Any, **kwargs: Any) -> Any:
        return compute(module, before, args, kwargs)

    module.forward = forward
    try:
        yield
    finally:
        if own:
            module.forward = before
        else:
            del module.forward
