"""Call log: every module call and attention call of one forward pass, in order, with its input and output tensors."""

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor, nn
from transformers import PreTrainedModel

OUTSIDE = "its attention is outside transformers' interface"
Call = tuple[nn.Module, int]
"""A module, and the number of its call in one forward pass: layers may share a module (ALBERT)."""


@dataclass(frozen=True)
class AttentionCall:
    """One attention call: its inputs, and the context it returned. Queries and keys are None if they were not found."""

    query: Float[Tensor, "b h t e"] | None
    key: Float[Tensor, "b g t e"] | None
    value: Float[Tensor, "b g t e_v"]
    context: Float[Tensor, "b t h e_v"]


@dataclass(frozen=True)
class Event:
    """A module call (with its number) or, if `attended` is set, an attention call."""

    call: Call | None
    given: Tensor | None
    returned: Tensor | None
    attended: AttentionCall | None = None


class Log:
    """Log of every module call and attention call of one forward pass, in order."""

    def __init__(self) -> None:
        self.events: list[Event] = []
        self.cuts = frozenset({"examples", "rows"})
        self.beyond = ""
        self._counts: Counter[nn.Module] = Counter()

    def called(self, module: nn.Module, given: tuple[Any, ...], returned: Any) -> None:
        """Log a module call (a forward hook)."""
        self.events.append(Event((module, self._counts[module]), first_tensor(given), first_tensor(returned)))
        self._counts[module] += 1

    def attended(self, attended: AttentionCall, cuts: frozenset[str] = frozenset(), beyond: str = OUTSIDE) -> None:
        """Log an attention call; `cuts`: the axes along which it can be computed in chunks; `beyond`: what it does beyond
        softmax(scale · q kᵀ + mask), in words; "" if it is no more than that."""
        self.events.append(Event(None, None, None, attended))
        self.cuts = self.cuts & cuts
        self.beyond = self.beyond or beyond

    def segments(self) -> list[list[Event]]:
        """The module calls before the first attention call, between the first and the second, …, after the last."""
        cuts = [number for number, event in enumerate(self.events) if event.attended]
        return [
            self.events[start:stop] for start, stop in zip([0, *(c + 1 for c in cuts)], [*cuts, len(self.events)], strict=True)
        ]

    @property
    def attentions(self) -> list[AttentionCall]:
        """Only the attention calls."""
        return [event.attended for event in self.events if event.attended]


def first_tensor(value: Any) -> Tensor | None:
    """The tensor that a module received or returned, alone or as the first of several; None if there is none."""
    first = value[0] if isinstance(value, (tuple, list)) and value else value
    return first if isinstance(first, Tensor) else None


@contextmanager
def logged(model: PreTrainedModel, log: Log) -> Iterator[None]:
    """Context in which the log records every module call of the model."""
    handles = [module.register_forward_hook(log.called) for module in model.modules()]
    try:
        yield
    finally:
        for handle in handles:
            handle.remove()


def given_to(log: Log, call: Call | None) -> Tensor | None:
    """The input tensor of a call; None if it was not logged."""
    return next((event.given for event in log.events if call is not None and event.call == call), None)


def is_sum(total: Tensor, *parts: Tensor) -> bool:
    """Whether `total` is the sum of the parts, up to rounding."""
    # Most tensors differ in the first few numbers already.
    return all(_adds_up(torch.stack([x.reshape(-1)[:size] for x in (total, *parts)])) for size in (64, total.numel()))


def _adds_up(terms: Float[Tensor, "terms n"]) -> bool:
    rounding = 4 * torch.finfo(terms.dtype).eps * terms.double().abs().sum(0)
    # Without the second condition, infinity would equal anything plus infinity.
    same = ((terms[0].double() - terms[1:].double().sum(0)).abs() <= rounding) & rounding.isfinite()
    return bool(same.all())
