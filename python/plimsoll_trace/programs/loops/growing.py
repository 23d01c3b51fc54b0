"""Batches that leave something behind: outputs that are collected for the end of an epoch, graphs that losses hold.

An epoch that is cut short would collect too little. It is run to its end where that is cheap; else the interval
reaches up by what the batches that were left out would have added.
"""

from __future__ import annotations

from typing import Any

from ..watch import Watch

# Ops that may be spent on such epochs, by all loaders of a program.
_OPS = 60_000
# Less than this in all is not worth it: numbers that are kept for a report.
_LEAST_BYTES = 2 * 2**20
# What was collected is joined at the end, and then there twice.
_COPIES = 2

_NOTE = (
    "Each batch of a loader holds on to {:.1f} MiB; after {:,} of them {:,} were left out, "
    "so that the interval reaches up by what they would hold."
)


class Allowance:
    """Ops that all passages together may take."""

    def __init__(self, ops: int) -> None:
        self._ops: float = ops

    def take(self, ops: float) -> bool:
        if ops > self._ops:
            return False
        self._ops -= ops
        return True


class Growing:
    """What a program's loaders have in common."""

    def __init__(self, watch: Watch) -> None:
        self._watch = watch
        self._ops = Allowance(_OPS)
        # By data set: what a batch left behind when the loader was last gone through.
        self._known: dict[Any, int] = {}

    def left_out(self, source: Any, held: list[int], left: int | None) -> None:
        """The batches that are left are not run, by a trainer that ends its epochs early."""
        self.runs_rest(source, held, left, ops=float("inf"))

    def runs_rest(self, source: Any, held: list[int], left: int | None, ops: float) -> bool:
        """Whether all batches are run that are left, for so many ops; held: live bytes before each batch so far."""
        grown = growth_of(held) or self._known.get(source, 0)
        if not left or left <= 0 or grown * left < _LEAST_BYTES:
            return False
        is_new = source not in self._known
        self._known[source] = grown
        if self._ops.take(ops):
            return True
        if is_new:
            self._watch.more_bytes += _COPIES * grown * left
            self._watch.observer.notes.add(_NOTE.format(grown / 2**20, len(held), left))
        return False


def growth_of(held: list[int]) -> int:
    """What each of the last two batches left behind.

    What one batch holds while the next comes, its inputs and outputs, is there after the first.
    """
    if len(held) < 3:
        return 0
    return max(0, min(held[-1] - held[-2], held[-2] - held[-3]))
