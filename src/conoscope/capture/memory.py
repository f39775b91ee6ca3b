"""Memory: lets the process reuse freed memory, and return it where it would pile up."""

import ctypes
import sys
from functools import cache

KEPT, LARGEST = 2**28, 2**25
"""How many freed bytes the process keeps, and the largest block that it keeps."""
TRIM_THRESHOLD, MMAP_THRESHOLD = -1, -3
LONG = 2**24
"""Bytes of one tensor of hidden states from which freed memory is returned after each batch."""


@cache
def keep_memory() -> None:
    """Let the process keep up to 256 MiB of freed memory, if the system's C library is glibc.

    The attention weights of every layer have the same size, and are freed before those of the next layer are computed. Returning
    this memory to the system and requesting it again costs a tenth of a forward pass.
    """
    library = _glibc()
    if library is not None:
        library.mallopt(TRIM_THRESHOLD, KEPT)
        library.mallopt(MMAP_THRESHOLD, LARGEST)


def return_memory(largest: int) -> None:
    """Return freed memory to the system, if one tensor of hidden states takes many bytes (`largest`).

    Between tensors of long texts lie small arrays that are kept, so that freed memory does not fit the next tensors and piles up.
    """
    library = _glibc()
    if library is not None and largest >= LONG:
        library.malloc_trim(0)


@cache
def _glibc() -> ctypes.CDLL | None:
    """The system's C library, if it is glibc."""
    if sys.platform != "linux":
        return None
    try:
        library = ctypes.CDLL("libc.so.6")
        return library if hasattr(library, "malloc_trim") else None
    except OSError:
        return None
