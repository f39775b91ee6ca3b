"""A model's own eager attention, for a whole batch or for some examples and some queries only."""

import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor, nn

from conoscope.capture.calls import AttentionCall
from conoscope.common.errors import CaptureError

PIECE = {"cpu": 2**22, "cuda": 2**26}
"""How many attention weights are computed at once: on a CPU about as many as fit its caches, elsewhere few beside a model."""
ALL = slice(None)


def eager_attention(module: nn.Module) -> Callable[..., tuple[Tensor, Tensor]]:
    """The function `eager_attention_forward` of the file that defines the module's class, or one of its base classes."""
    for kind in type(module).__mro__:
        function = getattr(sys.modules.get(kind.__module__), "eager_attention_forward", None)
        if function is not None:
            return function  # type: ignore[no-any-return]
    raise CaptureError(f"{type(module).__name__} has no eager attention of its own to capture; its weights cannot be seen")


@dataclass(frozen=True)
class EagerAttention:
    """One attention call that can be computed in chunks: the arguments from transformers, the module's own eager function."""

    module: nn.Module
    query: Float[Tensor, "b h t e"]
    key: Float[Tensor, "b g t e"]
    value: Float[Tensor, "b g t e_v"]
    mask: Tensor | None
    options: Mapping[str, Any]

    def __call__(self, examples: slice | Tensor = ALL, rows: slice = ALL) -> tuple[Tensor, Tensor]:
        """Context (b, t, h, e) and weights of these examples and queries."""
        query, key, value = self.query[examples, :, rows], self.key[examples], self.value[examples]
        mask = None if self.mask is None else self._part(self.mask, examples, rows)
        options = {name: self._part(x, examples, rows) if isinstance(x, Tensor) else x for name, x in self.options.items()}
        return eager_attention(self.module)(self.module, query, key, value, mask, **options)

    def in_double(self) -> "EagerAttention":
        """The same call in double precision."""
        options = {name: _double(x) if isinstance(x, Tensor) else x for name, x in self.options.items()}
        mask = None if self.mask is None else _double(self.mask)
        return EagerAttention(self.module, _double(self.query), _double(self.key), _double(self.value), mask, options)

    def _part(self, x: Tensor, examples: slice | Tensor, rows: slice) -> Tensor:
        """The part of a mask, or of another tensor with examples first and queries last but one, for these examples and rows."""
        tokens = self.query.shape[2]
        part = x[examples] if x.ndim > 1 and x.shape[0] == len(self.query) > 1 else x
        return part[..., rows, :] if x.ndim == 4 and x.shape[-2] == tokens > 1 else part

    def chunks(self, cuts: frozenset[str]) -> Iterator[tuple[slice, slice]]:
        """The examples and queries of each chunk; only the axes in `cuts` (`examples`, `rows`) are split."""
        batch, heads, tokens = self.query.shape[:3]
        room = PIECE.get(self.query.device.type, PIECE["cuda"]) // (heads * self.key.shape[2])
        together = min(batch, max(1, room // tokens)) if "examples" in cuts else batch
        rows = min(tokens, max(1, room // together)) if "rows" in cuts else tokens
        for example in range(0, batch, together):
            for row in range(0, tokens, rows):
                yield slice(example, example + together), slice(row, row + rows)

    def cuts(self, context: Tensor, weights: Tensor) -> frozenset[str]:
        """The axes that can be split without changing the given result."""
        third = self.query.shape[2] // 3
        # Not the first or the last queries: a function that derives positions from the number of queries gets those right.
        part = {"examples": (slice(len(self.query) - 1, None), ALL), "rows": (ALL, slice(third, 2 * third))}
        return frozenset(axis for axis, (examples, rows) in part.items() if self._same(context, weights, examples, rows))

    def _same(self, context: Tensor, weights: Tensor, examples: slice, rows: slice) -> bool:
        part = self(examples, rows)
        expected = context[examples, rows], weights[examples, :, rows]
        # A model in float64 may still compute its softmax in float32 (Llama, ModernBERT).
        rounding = 16 * max(torch.finfo(context.dtype).eps, torch.finfo(torch.float32).eps)
        return all(_close(one, other, rounding) for one, other in zip(part, expected, strict=True))

    def attended(self, context: Float[Tensor, "b t h e_v"]) -> AttentionCall:
        """The attention call with these inputs and this context."""
        return AttentionCall(self.query, self.key, self.value, context)


def _double(x: Tensor) -> Tensor:
    return x.double() if x.is_floating_point() else x


def _close(one: Tensor, other: Tensor, rounding: float) -> bool:
    """Whether two tensors are equal up to rounding; NaN, which padding may have, equals NaN."""
    largest = float(other.detach().abs().nan_to_num(0.0, 0.0).max())
    return one.shape == other.shape and torch.allclose(one, other, rtol=rounding, atol=rounding * largest, equal_nan=True)
