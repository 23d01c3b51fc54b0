"""A batch that knows which samples it holds."""

from __future__ import annotations


class Batch(list):
    """Samples in order; `start` is the number of the first of them in the dataset."""

    __slots__ = ("start",)

    @property
    def stop(self) -> int:
        return self.start + len(self)
