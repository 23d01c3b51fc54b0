"""Gives back memory that nothing needs any more."""

from __future__ import annotations

import gc
import sys
import traceback
from typing import Any


def drop_dead_frames(error: BaseException) -> None:
    """Frees what the frames of an error hold: their locals keep activations alive otherwise."""
    seen = set()
    waiting: list[BaseException | None] = [error]
    while waiting:
        one = waiting.pop()
        if one is None or id(one) in seen:
            continue
        seen.add(id(one))
        waiting += [one.__cause__, one.__context__]
        traceback.clear_frames(one.__traceback__)
        one.__traceback__ = None


def give_back_caches(collect: bool = True, of_host: bool = True) -> None:
    """Collects cycles, then returns what allocators keep for reuse to the device and to the system.

    A collection, and a look through the whole heap of the host, take tenths of a second in a large program: a
    caller that knows of no cycles, or is short of a card's memory alone, leaves them out.
    """
    if collect:
        gc.collect()
    torch = sys.modules.get("torch")
    if torch is not None and torch.cuda.is_available() and torch.cuda.is_initialized():
        _clear_workspaces(torch)
        try:
            torch.cuda.empty_cache()
        except RuntimeError:
            # On a card that another process filled, even this can fail; the retry will show.
            pass
    if of_host:
        _trim_heap()


def _clear_workspaces(torch: Any) -> None:
    clear = getattr(torch._C, "_cuda_clearCublasWorkspaces", None)
    if clear is not None:
        clear()


def _trim_heap() -> None:
    if not sys.platform.startswith("linux"):
        return
    import ctypes

    try:
        ctypes.CDLL(None).malloc_trim(0)
    except (AttributeError, OSError):
        # musl has no such call; it gives back by itself.
        pass
