"""The highest that was seen of each device in this process, even where other code reset the peak."""

from __future__ import annotations

import os
import threading

_lock = threading.Lock()
_highest: dict[str, tuple[int, int]] = {}


def raised(device: str, allocated: int, reserved: int) -> tuple[int, int]:
    """What is highest now, (allocated, reserved), this reading among it."""
    with _lock:
        before = _highest.get(device, (0, 0))
        now = (max(before[0], allocated), max(before[1], reserved))
        _highest[device] = now
    return now


def highest_bytes() -> int | None:
    """Of the fullest card where one was used, else of the host; None before anybody looked."""
    cards = [reserved for device, (_, reserved) in list(_highest.items()) if device != "cpu"]
    return max(cards) if cards else _highest.get("cpu", (None, None))[1]


def _after_fork() -> None:
    """A child has peaks of its own; and a lock that a thread of the parent held would never be released."""
    global _lock
    _lock = threading.Lock()
    _highest.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)
