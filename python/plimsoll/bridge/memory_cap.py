"""PLIMSOLL_MEMORY_BYTES as the share of a card that PyTorch's allocator may take."""

from __future__ import annotations

import logging
from typing import Any

from ..memory.host import stated_limit

log = logging.getLogger("plimsoll")

_capped: set[int] = set()


def cap_cuda(torch: Any) -> None:
    """Once CUDA is initialised, never before: a program may still fork, or choose its card."""
    if stated_limit() is None or not hasattr(torch.cuda, "_lazy_call"):
        return
    torch.cuda._lazy_call(lambda: cap_current(torch))


def cap_current(torch: Any) -> None:
    """Caps the card in use; later cards are capped by the reporter when it sees them used."""
    limit = stated_limit()
    index = torch.cuda.current_device()
    if limit is None or index in _capped:
        return
    _capped.add(index)
    total = torch.cuda.get_device_properties(index).total_memory
    try:
        torch.cuda.set_per_process_memory_fraction(min(1.0, limit / total), index)
    except (RuntimeError, ValueError) as error:
        log.warning("plimsoll: cuda:%d could not be capped at %d bytes: %s", index, limit, error)
