"""PLIMSOLL_MEMORY_BYTES as the share of a card that PyTorch's allocator may take."""

from __future__ import annotations

import functools
import logging
from typing import Any

from ..memory.host import stated_limit

log = logging.getLogger("plimsoll")

_capped: set[int] = set()


def cap_cuda(torch: Any) -> None:
    """Once CUDA is initialised, never before: a program may still fork, or choose its card."""
    if stated_limit() is None or not hasattr(torch.cuda, "_lazy_call"):
        return
    _keep_the_smaller(torch)
    torch.cuda._lazy_call(lambda: cap_current(torch))


def cap_current(torch: Any) -> None:
    """Caps the card in use; later cards are capped by the reporter when it sees them used."""
    index = torch.cuda.current_device()
    most = _share(torch, index)
    if most is None or index in _capped:
        return
    _capped.add(index)
    # The program, or PYTORCH_CUDA_ALLOC_CONF, may have set a smaller one before.
    own = getattr(torch.cuda, "get_per_process_memory_fraction", lambda _: 1.0)(index)
    try:
        torch.cuda.set_per_process_memory_fraction(min(own, most), index)
    except (RuntimeError, ValueError) as error:
        log.warning(
            "plimsoll: cuda:%d could not be capped at %s bytes: %s", index, stated_limit(), error
        )


def move_cap(torch: Any) -> None:
    """After the limit was moved or lifted: cards that are in use get the new share of them."""
    if not hasattr(torch, "cuda") or not torch.cuda.is_initialized():
        return
    # Cached memory of the allocator counts against the share.
    torch.cuda.empty_cache()
    real = torch.cuda.memory.set_per_process_memory_fraction
    put = getattr(real, "__wrapped__", real)
    for index in sorted(_capped):
        most = _share(torch, index)
        put(1.0 if most is None else most, index)


def _share(torch: Any, index: int) -> float | None:
    """The limit as a share of a card; None where there is no limit."""
    limit = stated_limit()
    if limit is None:
        return None
    return min(1.0, limit / torch.cuda.get_device_properties(index).total_memory)


def _keep_the_smaller(torch: Any) -> None:
    """A program that sets a share of its own gets the smaller of it and the limit."""
    original = torch.cuda.memory.set_per_process_memory_fraction
    if hasattr(original, "_plimsoll"):
        return

    @functools.wraps(original)
    def limited(fraction: Any, device: Any = None) -> None:
        # Checks both arguments as PyTorch does, and takes what is smaller than the limit.
        original(fraction, device)
        named = device if isinstance(device, int) or device is None else torch.device(device).index
        index = torch.cuda.current_device() if named is None else named
        most = _share(torch, index)
        if most is None or fraction <= most:
            return
        original(most, index)
        _capped.add(index)
        log.warning(
            "plimsoll: this program asked for %.4g of cuda:%d; it keeps the limit of %s bytes,"
            " which is %.4g of it",
            fraction,
            index,
            stated_limit(),
            most,
        )

    limited.__dict__["_plimsoll"] = True
    torch.cuda.memory.set_per_process_memory_fraction = limited
    torch.cuda.set_per_process_memory_fraction = limited
