"""Sending: many tensors go to a GPU in one copy."""

from collections.abc import Hashable, Mapping
from dataclasses import dataclass

import torch
from jaxtyping import UInt8
from torch import Tensor

ALIGNED = 256
"""Tensors begin at multiples of so many bytes, as those that torch allocates do."""


@dataclass(frozen=True)
class Layout:
    """Where some tensors lie in one array of bytes. Equal for tensors of equal names, shapes and types."""

    entries: tuple[tuple[Hashable, torch.dtype, torch.Size, int], ...]
    size: int

    @classmethod
    def of(cls, tensors: Mapping[Hashable, Tensor]) -> "Layout":
        """The layout of these tensors, in their order."""
        entries, size = [], 0
        for name, tensor in tensors.items():
            entries.append((name, tensor.dtype, tensor.shape, size))
            size += -(-tensor.nbytes // ALIGNED) * ALIGNED
        return cls(tuple(entries), size)

    def packed(self, tensors: Mapping[Hashable, Tensor], pinned: bool) -> UInt8[Tensor, " bytes"]:
        """All tensors in one array in the CPU's memory; `pinned`: where a GPU can read it by itself."""
        packed = torch.empty(self.size, dtype=torch.uint8, pin_memory=pinned)
        for name, view in self.views(packed).items():
            view.copy_(tensors[name])
        return packed

    def views(self, packed: UInt8[Tensor, " bytes"]) -> dict[Hashable, Tensor]:
        """The tensors in such an array."""
        return {
            name: packed[begin : begin + shape.numel() * dtype.itemsize].view(dtype).view(shape)
            for name, dtype, shape, begin in self.entries
        }


def is_capturing() -> bool:
    """Whether what runs now on the GPU is captured for a CUDA graph instead: what is computed has no contents yet."""
    return torch.cuda.is_initialized() and torch.cuda.is_current_stream_capturing()
