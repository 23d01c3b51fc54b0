"""Which part of a training step this process is in; read by the reporter, set by the code that knows."""

from __future__ import annotations

FORWARD, BACKWARD, STEP, IDLE, UNKNOWN = "forward", "backward", "step", "idle", "unknown"

_current = UNKNOWN


def enter(phase: str) -> None:
    global _current
    _current = phase


def current() -> str:
    return _current
