"""The order of a pass over a dataset, which can be stopped between two batches and go on later."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Callable


class Feed:
    """A batch sampler for one DataLoader after another: each batch is handed out once."""

    def __init__(self, batch_sampler: Any, is_short: Callable[[], bool]) -> None:
        self._sampler = batch_sampler
        self._is_short = is_short
        self._rest: Iterator[Any] = iter(())
        self._next: Any = None
        self.over = True

    def begin(self) -> None:
        self._rest = iter(self._sampler)
        self._advance()

    def __iter__(self) -> Iterator[Any]:
        while not self.over and not self._is_short():
            batch = self._next
            self._advance()
            yield batch

    def __len__(self) -> int:
        return len(self._sampler)

    def _advance(self) -> None:
        self._next = next(self._rest, None)
        self.over = self._next is None
