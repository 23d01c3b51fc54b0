"""Host memory that was freed is kept for the next values, where the C library is glibc, until much is needed at once.

Values of boxes are computed in arrays of many megabytes, one after another. If each went back to the system, the
next would come as new pages, which takes as long as computing with them.
"""

from __future__ import annotations

import ctypes

# Numbers of settings in glibc's malloc.h.
_TRIM_THRESHOLD, _TOP_PAD, _MMAP_THRESHOLD = -1, -2, -3
# The largest array that glibc takes from its heap.
_FROM_HEAP = 32 << 20
# Free memory at the end of the heap that is kept, and what is taken at a time.
_KEPT = 256 << 20
_AT_A_TIME = 8 << 20


def keep_freed_memory() -> None:
    """Sets glibc's allocator so, for as long as the process lives; other C libraries stay as they are."""
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (AttributeError, OSError, TypeError):
        return
    mallopt(_MMAP_THRESHOLD, _FROM_HEAP)
    mallopt(_TRIM_THRESHOLD, _KEPT)
    mallopt(_TOP_PAD, _AT_A_TIME)


def give_freed_memory_back() -> None:
    """For who is about to take much at once, which does not come from what was kept."""
    try:
        ctypes.CDLL(None).malloc_trim(0)
    except (AttributeError, OSError, TypeError):
        return
