"""Forks of the traced process, which work for it on another core."""

from __future__ import annotations

import ctypes
import os
import signal
from contextlib import suppress

# Of Linux: the signal that a process gets when its parent ends.
_PARENT_ENDS = 1


def belong_to(parent: int) -> None:
    """In a fork: it ends with the process that it was forked from, however that ends."""
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_DFL)
    end_with_parent()
    if os.getppid() != parent:
        os._exit(0)


def end_with_parent() -> None:
    """However it ends: nothing that nobody waits for goes on."""
    with suppress(OSError, AttributeError):
        ctypes.CDLL(None).prctl(_PARENT_ENDS, signal.SIGKILL)


def end(pid: int) -> None:
    """Leaves nothing running, also where a program has asked that its children are not waited for."""
    with suppress(OSError):
        os.kill(pid, signal.SIGKILL)
    with suppress(OSError):
        os.waitpid(pid, 0)
