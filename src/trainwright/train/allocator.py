"""Keep the memory that a step frees for the next one.

By default glibc gives a large block back to the system as soon as it is freed and asks for it anew a moment later; the
system then clears every page of it again. On a processor that was a fifth of a training step.
"""

from __future__ import annotations

import contextlib
import ctypes

# From glibc's malloc.h
_M_TRIM_THRESHOLD = -1
_M_MMAP_MAX = -4
STEPS_BETWEEN_RETURNS = 25  # asking for its memory anew costs a step about a fifth of its time, so this costs 1 %


def keep_freed_memory() -> bool:
    """Tell glibc to reuse large blocks rather than to return them; False where the C library is another one.

    Blocks of other sizes tear holes into what is kept, so it grows by and by; see :func:`give_back_memory`.
    """
    with contextlib.suppress(OSError, AttributeError):
        mallopt = ctypes.CDLL(None).mallopt
        return bool(mallopt(_M_MMAP_MAX, 0)) and bool(mallopt(_M_TRIM_THRESHOLD, 2**31 - 1))
    return False


def give_back_memory() -> None:
    """Return what is kept but not used: where a step is about to be done with less, and every few steps."""
    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL(None).malloc_trim(0)
