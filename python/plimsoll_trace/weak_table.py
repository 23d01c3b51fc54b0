"""Objects by their number, while they live: the number of one that is gone is soon another's."""

from __future__ import annotations

import weakref
from typing import Any, Generic, TypeVar

_Value = TypeVar("_Value")


class WeakTable(Generic[_Value]):
    """Something that is known of objects which are not to be held, and not to be compared, as tensors."""

    def __init__(self) -> None:
        self._found: dict[int, tuple[Any, _Value]] = {}

    def __contains__(self, one: Any) -> bool:
        return id(one) in self._found

    def add(self, one: Any, value: _Value) -> None:
        """The first value stays."""
        key = id(one)
        if key in self._found:
            return
        gone = self._found.pop
        self._found[key] = (weakref.ref(one, lambda _: gone(key, None)), value)

    def of(self, one: Any, default: _Value) -> _Value:
        found = self._found.get(id(one))
        return default if found is None else found[1]
