"""Files of `torch.save`: where they would hold the values of a tensor that has none, they have a hole.

So a checkpoint takes neither memory nor time, whatever the size of its model. Real values are written:
a program may load the file again.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch

from .patches import Patches


@contextmanager
def holes() -> Iterator[None]:
    """While it lasts, `torch.save` leaves out what has no memory."""
    patches = Patches()
    save, copy = torch.serialization._save, torch.UntypedStorage.cpu

    def saved(obj: Any, file: Any, *args: Any, **kwargs: Any) -> None:
        save(obj, _Writer(file), *args, **kwargs)

    def cpu(self: Any) -> Any:
        return self if self.device.type == "meta" else copy(self)

    patches.set(torch.serialization, "_save", saved)
    patches.set(torch.UntypedStorage, "cpu", cpu)
    try:
        yield
    finally:
        patches.undo()


class _Writer:
    """PyTorch's writer of one file, and what it does with a storage that has no memory."""

    def __init__(self, file: Any) -> None:
        self._file = file

    def __getattr__(self, name: str) -> Any:
        return getattr(self._file, name)

    def write_record(self, name: str, data: Any, size: int) -> None:
        if isinstance(data, torch.UntypedStorage) and data.device.type == "meta":
            self._file.write_record_metadata(name, size)
        else:
            self._file.write_record(name, data, size)
