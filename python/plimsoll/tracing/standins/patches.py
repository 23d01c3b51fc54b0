"""Attributes replaced for the time of a trace, and put back after it."""

from __future__ import annotations

from typing import Any

_MISSING = object()


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

    def undo(self) -> None:
        while self._undo:
            owner, name, before = self._undo.pop()
            if before is _MISSING:
                delattr(owner, name)
            else:
                setattr(owner, name, before)
