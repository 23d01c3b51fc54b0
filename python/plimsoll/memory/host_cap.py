"""A limit on the host's memory as an error that can be caught, before the kernel kills the process."""

from __future__ import annotations

from . import host
from .clean_up import give_back_caches

# Stacks, libraries and the page cache of the process count too; the killer must not come first.
MARGIN = 0.97

# The soft limit that was set here; it is ours to change.
_ours: int | None = None


def fail_before_the_kernel_does() -> int | None:
    """Sets a soft limit on this process' data where a cgroup or PLIMSOLL_MEMORY_BYTES limits it.

    An allocation beyond it then fails in the step, where it is recovered; beyond a cgroup's limit the
    kernel kills. Never raises a limit of others, and answers the bytes of data that are allowed now, or None.
    """
    global _ours
    limits = [limit for limit in (host.cgroup_limit(), host.stated_limit()) if limit is not None]
    status = host.process_status()
    if not limits or "VmData" not in status:
        return None
    room = int(min(limits) * MARGIN) - host.resident_bytes()
    if room <= 0:
        return None
    try:
        import resource

        soft, hard = resource.getrlimit(resource.RLIMIT_DATA)
        allowed = status["VmData"] + room
        if soft not in (resource.RLIM_INFINITY, _ours) and soft <= allowed:
            return None
        if hard != resource.RLIM_INFINITY:
            allowed = min(allowed, hard)
        resource.setrlimit(resource.RLIMIT_DATA, (allowed, hard))
        _ours = allowed
        return allowed
    except (ImportError, OSError, ValueError):
        return None


def give_back_heap() -> None:
    """Gives back what the heap keeps of freed memory: the kernel counts it as in use, so that sizes cannot be told."""
    give_back_caches(collect=False)
    if _ours is not None:
        # Addresses that the heap keeps count as data though no memory is behind them.
        fail_before_the_kernel_does()
