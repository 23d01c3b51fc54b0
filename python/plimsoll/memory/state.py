"""Small answers about memory: how much, how large a batch, which card."""

from __future__ import annotations

from typing import Any

from ..arguments import optional_size, share, size
from .gauge import gauge_of


def memory_state(device: str | None = None) -> dict[str, Any]:
    """What a device holds, in bytes.

    plimsoll.memory_state("cuda:0")["freeBytes"]
    """
    gauge = gauge_of(device=device)
    figures = gauge.figures()
    used = figures["totalBytes"] - figures["freeBytes"]
    share = 100 * used / figures["totalBytes"] if figures["totalBytes"] else "unknown"
    return {"device": gauge.device, **figures, "usedPercent": share, "source": "measured"}


def estimate_batch_size(
    model_bytes: int,
    sample_bytes: int,
    free_bytes: int | None = None,
    safety: float = 0.8,
    overhead_bytes: int = 100 * 2**20,
) -> int:
    """The largest batch that fits beside the model; at least 1. Estimated: memory is taken as even per sample.

    >>> estimate_batch_size(2**30, 2**20, free_bytes=4 * 2**30)
    2152
    """
    size("model_bytes", model_bytes)
    size("sample_bytes", sample_bytes, least=1)
    optional_size("free_bytes", free_bytes)
    share("safety", safety)
    size("overhead_bytes", overhead_bytes)
    if free_bytes is None:
        gauge = gauge_of()
        free_bytes = gauge.capacity_bytes() - gauge.used_bytes()
    return max(1, int((free_bytes * safety - model_bytes - overhead_bytes) // sample_bytes))


def least_loaded_device() -> str:
    """The card with the most free memory, as `cuda:N`; `cpu` where there is none."""
    import torch

    if not torch.cuda.is_available():
        return "cpu"
    free = [
        (torch.cuda.mem_get_info(index)[0], -index) for index in range(torch.cuda.device_count())
    ]
    return f"cuda:{-max(free)[1]}"
