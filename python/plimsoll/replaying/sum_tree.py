"""Priorities as a tree of sums, in arrays: many rows are changed or found in one call."""

from __future__ import annotations

from typing import Any


class SumTree:
    """In 32 bits: each sum is made of the two below it, so rounding does not pile up."""

    def __init__(self, rows: int, dtype: str = "float32") -> None:
        import numpy

        self._numpy = numpy
        self._leaves = 1 << max(0, rows - 1).bit_length()
        self._sums = numpy.zeros(2 * self._leaves, dtype=dtype)

    @property
    def total(self) -> float:
        return float(self._sums[1])

    @property
    def nbytes(self) -> int:
        return self._sums.nbytes

    def of(self, rows: Any) -> Any:
        return self._sums[self._leaves + rows]

    def set(self, rows: Any, values: Any) -> None:
        """Where a row comes twice, the later value counts."""
        places = self._leaves + self._numpy.asarray(rows)
        self._sums[places] = values
        while places.size and places[0] > 1:
            places = self._numpy.unique(places >> 1)
            self._sums[places] = self._sums[2 * places] + self._sums[2 * places + 1]

    def find(self, values: Any) -> Any:
        """For each value from 0 up to the total, the row in whose share it lies."""
        places = self._numpy.ones(len(values), dtype=self._numpy.int64)
        rest = self._numpy.array(values, dtype=self._numpy.float64)
        for _ in range(self._leaves.bit_length() - 1):
            left = 2 * places
            below = self._sums[left]
            # A sum of nothing is never entered, whatever rounding made of the rest.
            right = (rest >= below) & (self._sums[left + 1] > 0)
            rest -= below * right
            places = left + right
        return places - self._leaves
