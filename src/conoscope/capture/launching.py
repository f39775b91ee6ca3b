"""Launching kernels: Triton finds a compiled kernel by looking at each argument, which takes longer than a small kernel runs.
Here it is found by the numbers and the kinds of tensors that it was launched with before.
"""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

MOST = 4096
"""How many launches are remembered: one for each kernel and shape of a batch."""
ALIGNED = 16
"""Triton compiles loads of so many bytes at once for a tensor that begins at a multiple of them."""

_COMPILED: dict[tuple[Any, ...], tuple[Any, tuple[Any, ...], Any]] = {}
"""Compiled kernels and their constants by key; and the kernel itself, so that no other can get its id."""


def launch(
    kernel: Any, grid: tuple[int, int, int], tensors: Sequence[Tensor], numbers: Sequence[float], **constants: Any
) -> None:
    """Run a kernel whose parameters are tensors, then numbers, then constants.

    Whatever Triton compiles a kernel for is part of the key: the numbers themselves, and each tensor's precision and alignment.
    """
    kinds = tuple([(x.dtype, x.data_ptr() % ALIGNED == 0) for x in tensors])
    device = torch.cuda.current_device() if tensors[0].is_cuda else None
    key = (id(kernel), device, kinds, *numbers, *constants.values())
    known = _COMPILED.get(key)
    if known is not None:
        compiled, last, _ = known
        compiled[grid](*tensors, *numbers, *last)
        return
    compiled = kernel[grid](*tensors, *numbers, **constants)
    if compiled is not None:  # Triton's interpreter compiles nothing.
        if len(_COMPILED) >= MOST:
            _COMPILED.clear()
        names = kernel.arg_names[len(tensors) + len(numbers) :]
        _COMPILED[key] = compiled, tuple(constants[name] for name in names), kernel
