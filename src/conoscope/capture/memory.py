"""Memory: lets the process reuse freed memory."""

import ctypes
import sys
from functools import cache

KEPT, LARGEST = 2**28, 2**25
"""How many freed bytes the process keeps, and the largest block that it keeps."""
TRIM_THRESHOLD, MMAP_THRESHOLD = -1, -3


@cache
def keep_memory() -> None:
    """Let the process keep up to 256 MiB of freed memory, if the system's C library is glibc.

    The attention weights of every layer have the same size, and are freed before those of the next layer are computed. Returning
    this memory to the system and requesting it again costs a tenth of a forward pass.
    """
    if sys.platform != "linux":
        return
    try:
        library = ctypes.CDLL("libc.so.6")
        library.mallopt(TRIM_THRESHOLD, KEPT)
        library.mallopt(MMAP_THRESHOLD, LARGEST)
    except (OSError, AttributeError):
        return
