"""A batch that knows which samples it holds."""

from __future__ import annotations

from typing import Any


class Batch(list[Any]):
    """Samples in order; `start` is the number of the first of them in the dataset."""

    __slots__ = ("start",)

    start: int

    @property
    def stop(self) -> int:
        return self.start + len(self)
