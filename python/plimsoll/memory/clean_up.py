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
    torch = _torch_on_a_card()
    if torch is not None:
        clear_workspaces()
        try:
            torch.cuda.empty_cache()
        except RuntimeError:
            # On a card that another process filled, even this can fail; the retry will show.
            pass
    if of_host:
        _trim_heap()


def clear_workspaces() -> None:
    """Gives back what cuBLAS keeps for itself: tens of megabytes that count as in use though no tensor holds them."""
    torch = _torch_on_a_card()
    clear = getattr(torch._C, "_cuda_clearCublasWorkspaces", None) if torch is not None else None
    if clear is not None:
        clear()


def _torch_on_a_card() -> Any:
    """torch, where it is loaded and has touched a card."""
    torch = sys.modules.get("torch")
    if torch is None or not torch.cuda.is_available() or not torch.cuda.is_initialized():
        return None
    return torch


def _trim_heap() -> None:
    if not sys.platform.startswith("linux"):
        return
    import ctypes

    try:
        ctypes.CDLL(None).malloc_trim(0)
    except (AttributeError, OSError):
        # musl has no such call; it gives back by itself.
        pass
