"""Next observations that are not the observation of a later row: at the end of an episode, and of the
newest rows.
"""

from __future__ import annotations

from typing import Any

FIRST_SLOTS = 64


class OwnNext:
    def __init__(self, like: Any) -> None:
        import numpy

        self._numpy = numpy
        self._kept = numpy.empty((FIRST_SLOTS, *like.shape[1:]), dtype=like.dtype)
        self._free = list(range(FIRST_SLOTS))
        self._slots: dict[int, int] = {}

    @property
    def nbytes(self) -> int:
        return self._kept.nbytes

    def put(self, rows: Any, observations: Any) -> None:
        if len(rows) > len(self._free):
            self._grow(len(rows))
        slots = [self._free.pop() for _ in range(len(rows))]
        self._kept[slots] = observations
        self._slots.update(zip(rows.tolist(), slots))

    def get(self, rows: Any) -> Any:
        return self._kept[[self._slots[row] for row in rows.tolist()]]

    def remove(self, rows: Any) -> None:
        self._free += [self._slots.pop(row) for row in rows.tolist()]

    def all(self) -> tuple[Any, Any]:
        """Every row that has one, and its observation."""
        rows = self._numpy.array(sorted(self._slots), dtype=self._numpy.int64)
        return rows, self.get(rows)

    def _grow(self, more: int) -> None:
        before = len(self._kept)
        after = max(2 * before, before + more)
        grown = self._numpy.empty((after, *self._kept.shape[1:]), dtype=self._kept.dtype)
        grown[:before] = self._kept
        self._free += range(before, after)
        self._kept = grown
