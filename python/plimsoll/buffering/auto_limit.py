"""How much memory a store of automatic size may hold: the rule of src/buffers/auto-limit.ts."""

from __future__ import annotations

from ..memory import host
from ..memory.load_line import LOAD_LINE

# A store never plans with more than this part of the machine.
MAX_SHARE = 0.5


def auto_limit(used_bytes: int, total_bytes: int, held_bytes: int) -> int:
    """What it holds now, and what is free below the load line; less than it holds above the line.

    >>> auto_limit(used_bytes=95, total_bytes=100, held_bytes=20)
    15
    """
    free = LOAD_LINE * total_bytes - used_bytes
    return int(min(MAX_SHARE * total_bytes, max(0, held_bytes + free)))


def host_memory() -> tuple[int, int] | None:
    """(used, total) of the machine, or of the tightest cgroup; None where they cannot be read."""
    machine = host.machine()
    total, available = machine.get("MemTotal"), machine.get("MemAvailable")
    if total is None or available is None:
        return None
    limit = host.cgroup_limit()
    used = total - available
    if limit is not None and limit < total:
        return max(host.resident_bytes(), used - (total - limit)), limit
    return used, total
