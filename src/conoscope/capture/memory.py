"""Memory: keeping what was freed for what comes next."""

import ctypes
import sys
from functools import cache

KEPT, LARGEST = 2**28, 2**25
"""How many freed bytes a process keeps, and the largest piece that it keeps."""
TRIM_THRESHOLD, MMAP_THRESHOLD = -1, -3


@cache
def keep_memory() -> None:
    """Let the process keep up to 256 MiB of what it freed, where the system's C library is glibc.

    The weights of every layer are as large as those of the layer before, and gone before these are made. Handing their memory
    back and asking for it again costs a tenth of a forward pass.
    """
    if sys.platform != "linux":
        return
    try:
        library = ctypes.CDLL("libc.so.6")
        library.mallopt(TRIM_THRESHOLD, KEPT)
        library.mallopt(MMAP_THRESHOLD, LARGEST)
    except (OSError, AttributeError):
        return
