"""One place where items lie, with its own limit: memory, or a folder."""

from __future__ import annotations

from typing import Any, Callable

from .adaptive_cache import AdaptiveCache


class Tier:
    def __init__(self, limit_bytes: int, drop: Callable[[str], None] = lambda _: None) -> None:
        self.items: dict[str, Any] = {}
        self.evictions = 0
        self.raw_bytes = 0
        self._raw: dict[str, int] = {}
        self._cache = AdaptiveCache(limit_bytes)
        self._drop = drop

    @property
    def bytes(self) -> int:
        return self._cache.bytes

    @property
    def limit_bytes(self) -> int:
        return self._cache.limit_bytes

    def use(self, key: str) -> Any | None:
        """The item, if it is here; asking counts, also for one that is not."""
        self._cache.use(key)
        return self.items.get(key)

    def add(self, key: str, item: Any, size: int, raw_bytes: int) -> None:
        self._forget(key)
        self.items[key] = item
        self._raw[key] = raw_bytes
        self.raw_bytes += raw_bytes
        self._evict(self._cache.add(key, size))

    def remove(self, key: str) -> bool:
        """Takes an item out; True where it was here."""
        self._cache.remove(key)
        return self._forget(key)

    def resize(self, limit_bytes: int) -> None:
        self._evict(self._cache.resize(limit_bytes))

    def _evict(self, keys: list[str]) -> None:
        for key in keys:
            self.evictions += self._forget(key)
            self._drop(key)

    def _forget(self, key: str) -> bool:
        self.raw_bytes -= self._raw.pop(key, 0)
        return self.items.pop(key, None) is not None
