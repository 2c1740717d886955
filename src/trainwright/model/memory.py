"""Memory that runs out: how each allocator says so, and how to get back what a failed attempt held."""

from __future__ import annotations

import gc

_CPU_MESSAGES = ("not enough memory: you tried to allocate", "std::bad_alloc")


def is_out_of_memory(error: BaseException) -> bool:
    """Whether an error says that memory ran out, on a card or in main memory."""
    import torch
    from accelerate.utils.memory import should_reduce_batch_size

    if isinstance(error, (MemoryError, torch.OutOfMemoryError)):
        return True
    known = isinstance(error, Exception) and should_reduce_batch_size(error)
    return known or (isinstance(error, RuntimeError) and any(message in str(error) for message in _CPU_MESSAGES))


def free_unused() -> None:
    """Collect what nothing refers to any more, and empty the card's cache."""
    import torch

    gc.collect()
    if torch.cuda.is_available():
        torch.cuda.empty_cache()
