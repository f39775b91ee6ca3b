"""Fused reductions on a GPU: attention and vectors are read by kernels (`attention_kernels.py`) that write only what is kept of
them.

No weights are in memory, so memory grows with the length of a text; only a mask, which a model makes itself, with its square.
Where Triton or a recent GPU is missing, the same numbers come from torch operations (`softmax.py`, `quantities/reductions.py`).
"""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from importlib.util import find_spec
from typing import Any

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from conoscope.capture import fused_vectors
from conoscope.capture.batch import Batch
from conoscope.capture.draws import drawn_keys, drawn_queries
from conoscope.capture.fused_vectors import power_of_two
from conoscope.capture.reductions import asking_queries
from conoscope.capture.softmax import PlainAttention

DTYPES = (torch.float32, torch.bfloat16, torch.float16)
WIDEST = 256
"""The widest head whose queries and keys fit a block."""
WIDE = 128
"""From which width on blocks of queries are smaller than those of the matrix units."""
RECENT = (8, 0)
"""The compute capability from which tensor cores multiply bfloat16 and 19-bit numbers."""


def runs_on(device: torch.device, dtype: torch.dtype) -> bool:
    """Whether the kernels run on this device in this precision."""
    return device.type == "cuda" and dtype in DTYPES and not _FAILED and _has_triton(device.index or 0)


_FAILED: list[str] = []
"""Why the kernels do not run on this machine, if they were tried and failed; then none is run again."""


def failure() -> str | None:
    """Why the kernels do not run on this machine, if they were tried and failed: torch operations take their place."""
    return _FAILED[0] if _FAILED else None


@contextmanager
def _tried(device: torch.device) -> Iterator[None]:
    """Context in which an error of a compiler or a driver, of any version, is kept as the reason why the kernels do not run."""
    try:
        yield
        if device.type == "cuda":
            torch.cuda.synchronize(device)
    except Exception as error:
        _FAILED.append(f"the fused kernels do not run here ({type(error).__name__})")


def try_vectors(value: Float[Tensor, "b h t e"], batch: Batch) -> None:
    """Run the kernels of vectors once, on a few tokens, if they are to be used."""
    if runs_on(value.device, value.dtype):
        with _tried(value.device):
            keep, bad = batch.real[None].float(), torch.zeros_like(batch.numbers, dtype=torch.int32)
            fused_vectors.vector_sums([value.transpose(1, 2)], keep, keep.argmax(-1).int(), keep[0], bad)


def try_attention(
    query: Float[Tensor, "b h t e"], key: Float[Tensor, "b g t e"], value: Float[Tensor, "b g t e_v"], batch: Batch
) -> str | None:
    """Run the kernels of attention once, on a few tokens; why they do not run."""
    if query.shape[-1] > WIDEST:
        return f"heads of more than {WIDEST} coordinates"
    with _tried(query.device):
        columns = FusedAttention(PlainAttention(query, key, value, None, False, 1.0), batch).reduced()["columns"]
        heads, width = query.shape[1], value.shape[-1]
        if width <= fused_vectors.WIDEST:
            fused_vectors.transformed_norms(value, torch.ones(heads, width, width, device=key.device))
            if heads * width <= fused_vectors.WHOLE:
                ones = torch.ones(heads, width, heads * width, device=key.device)
                fused_vectors.head_grams(value, drawn_keys(batch), ones.flatten(0, 1))
                fused_vectors.weighted_vectors(value, drawn_keys(batch)[0], columns[..., 0], ones)
        gram = torch.ones(len(query), columns.shape[-1], heads, heads, device=key.device)
        fused_vectors.summed_norms(columns, gram, batch.real.float())
    return failure()


@cache
def _has_triton(index: int) -> bool:
    return find_spec("triton") is not None and torch.version.hip is None and torch.cuda.get_device_capability(index) >= RECENT


def _precision(dtype: torch.dtype) -> str:
    return "tf32x3" if dtype == torch.float32 else "ieee"


@dataclass(frozen=True)
class Blocks:
    """How many queries and keys a program takes at once; at least as many queries."""

    queries: int
    keys: int

    @classmethod
    def of(cls, width: int, dtype: torch.dtype) -> "Blocks":
        """Fewer for wide heads and in single precision, so that they fit into the shared memory of most GPUs."""
        sizes = ((64, 64), (32, 32), (32, 16)) if dtype == torch.float32 else ((128, 64), (64, 64), (64, 32))
        return cls(*sizes[0 if width <= 64 else 1 if width <= 128 else 2])


@dataclass(frozen=True)
class FusedAttention:
    """One attention call, reduced by kernels."""

    plain: PlainAttention
    batch: Batch

    def reduced(self) -> dict[str, Tensor]:
        """Every reduction of the weights by name, whatever is asked for, since most of the cost is shared."""
        from conoscope.capture import attention_kernels as kernels

        query, key, mask = self.plain.query, self.plain.key, self.plain.mask
        (rows, heads, tokens, width), drawn = query.shape, drawn_keys(self.batch)
        blocks = Blocks.of(width, query.dtype)
        single: dict[str, Any] = {"dtype": torch.float32, "device": query.device}
        top, total, entropy, row, paired = (torch.empty(rows, heads, tokens, **single) for _ in range(5))
        band = torch.empty(rows, heads, tokens, 3, **single)
        columns = torch.empty(rows, heads, drawn.shape[1], tokens, **single)
        received = torch.empty(rows, heads, 2, tokens, **single)
        seen, strides = (top, (0, 0, 0, 0)) if mask is None else (mask.view(torch.uint8), _strides(mask))
        shared = (*query.stride(), *key.stride(), *strides, tokens, heads, heads // key.shape[1])
        sizes = {"E": width, "BE": max(16, power_of_two(width)), "BM": blocks.queries, "BN": blocks.keys}
        flags = {"MASKED": mask is not None, "CAUSAL": self.plain.causal, "PRECISION": _precision(query.dtype)}
        options = {**sizes, **flags, "num_warps": 4, "num_stages": 2}
        by_query, by_key = -(-tokens // blocks.queries), -(-tokens // blocks.keys)
        alike, *ranges = self._ranges(blocks) if mask is not None else [drawn] * 5
        kernels.attention_rows[(by_query * rows * heads,)](
            query, key, seen, *ranges[:2], alike, drawn, top, total, entropy, band, columns, self.plain.scale,
            *shared, by_query, drawn.shape[1], BC=16, **options,
        )  # fmt: skip
        # Products of both kernels are rounded alike, so that no weight is above 1, only where blocks lie alike.
        along_rows = query.dtype == torch.float32 or width > WIDE
        kernels.attention_keys[(by_key * rows * heads,)](
            query, key, seen, *ranges[2:], alike, asking_queries(self.batch), self.batch.cls, drawn_queries(self.batch),
            top, total, received, row, paired, self.plain.scale, *shared, by_key,
            AXIS=0 if along_rows else 1, **options,
        )  # fmt: skip
        return {
            "entropy": entropy, "band": band, "columns": columns.mT, "received": received, "classifying": row, "paired": paired,
        }  # fmt: skip

    def _ranges(self, blocks: Blocks) -> list[Tensor]:
        """Of which texts all queries see the same keys; from which to which key each block of queries sees, and by which queries
        each block of keys is seen. Once for a mask."""
        mask = self.plain.mask
        assert mask is not None

        def compute() -> tuple[Tensor, list[Tensor]]:
            any_head = mask.any(1) if mask.shape[1] > 1 else mask[:, 0]
            keys = block_ranges(any_head, blocks.queries, blocks.keys)
            queries = block_ranges(any_head.mT, blocks.keys, blocks.queries)
            rows = len(self.plain.query)
            same_rows = mask.shape[2] == 1 or mask.stride(2) == 0
            alike = mask.new_ones(len(mask), 1) if same_rows else (mask == mask[:, :, :1]).flatten(1).all(1, keepdim=True)
            alike = alike.int()
            # Keeps the mask alive, so that no other mask can get its id.
            return mask, [x.expand(rows, -1).contiguous() for x in (alike, *keys, *queries)]

        known: tuple[Tensor, list[Tensor]] = self.batch.memo(("ranges", id(mask), blocks), compute)
        return known[1]


def block_ranges(seen: Bool[Tensor, "b i j"], size: int, step: int) -> tuple[Int[Tensor, "b blocks"], Int[Tensor, "b blocks"]]:
    """The first and (exclusive) last column that any row of each block of `size` rows sees; the first rounded down to `step`."""
    rows, tokens = seen.shape[1:]
    blocks = -(-rows // size)
    padded = torch.nn.functional.pad(seen, (0, 0, 0, blocks * size - rows)).unflatten(1, (blocks, size)).any(2)
    columns = torch.arange(tokens, device=seen.device)
    first = columns.where(padded, tokens).amin(-1)
    last = (columns + 1).where(padded, 0).amax(-1)
    first = first.minimum(last) // step * step
    return first.int(), last.int()


def _strides(mask: Tensor) -> tuple[int, ...]:
    """The strides of a mask; 0 along an axis on which it is the same."""
    return tuple(0 if size == 1 else stride for size, stride in zip(mask.shape, mask.stride(), strict=True))
