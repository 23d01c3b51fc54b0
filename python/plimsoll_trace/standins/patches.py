"""Attributes replaced for the time of a trace, and put back after it."""

from __future__ import annotations

import gc
from typing import Any

_MISSING = object()
# Modules that keep what is Python's own: the trace works with it.
_LEFT = ("builtins", "io", "_io", "plimsoll", "plimsoll_trace")


def _is_left(module: str) -> bool:
    return module.partition(".")[0] in _LEFT


class Patches:
    def __init__(self) -> None:
        self._undo: list[tuple[Any, str, Any]] = []

    def set(self, owner: Any, name: str, value: Any) -> Any:
        """Replaces an attribute and returns what was there."""
        original = getattr(owner, name)
        inherited = isinstance(owner, type) and name not in vars(owner)
        self._undo.append((owner, name, _MISSING if inherited else original))
        setattr(owner, name, value)
        return original

    def add(self, owner: Any, name: str, value: Any) -> None:
        """Sets an attribute that was not there."""
        self._undo.append((owner, name, _MISSING))
        setattr(owner, name, value)

    def set_held(self, original: Any, value: Any) -> None:
        """Replaces what libraries hold under names of their own, as `from builtins import open as _open` makes them."""
        for holder in gc.get_referrers(original):
            if not isinstance(holder, dict) or _is_left(str(holder.get("__name__"))):
                continue
            for name in [name for name, held in holder.items() if held is original]:
                self._undo.append((holder, name, original))
                holder[name] = value

    def undo(self) -> None:
        while self._undo:
            owner, name, before = self._undo.pop()
            if isinstance(owner, dict):
                owner[name] = before
            elif before is _MISSING:
                delattr(owner, name)
            else:
                setattr(owner, name, before)
