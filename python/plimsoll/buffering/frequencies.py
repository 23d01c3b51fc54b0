"""How often each key was asked for lately, also keys that are not held."""

from __future__ import annotations

# Counts stop here: what was asked for often long ago must be forgotten in a few halvings.
HIGHEST = 15
# All counts are halved after so many requests for each item that fits.
REQUESTS_PER_ITEM = 10
# A store that holds almost nothing still needs some requests to tell items apart.
LEAST_ITEMS = 16


class Frequencies:
    """A plain dict instead of a sketch: buffers are large and few, and a dict is exact."""

    def __init__(self) -> None:
        self._counts: dict[str, int] = {}
        self._requests = 0

    def of(self, key: str) -> int:
        return self._counts.get(key, 0)

    def count(self, key: str, items_held: int) -> None:
        self._counts[key] = min(HIGHEST, self.of(key) + 1)
        self._requests += 1
        if self._requests >= REQUESTS_PER_ITEM * max(items_held, LEAST_ITEMS):
            self._requests //= 2
            self._counts = {key: count // 2 for key, count in self._counts.items() if count > 1}
