"""`torch.save` of a program: into the trace's own folder, without the values that tensors do not have."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from typing import Any

import torch

from ..standins.patches import Patches
from .files.overlay import Overlay, is_path
from .watch import SAVING, Watch

# Files of `torch.save`: where they would hold the values of a tensor that has none, they have a hole.
#
# So a checkpoint takes neither memory nor time, whatever the size of its model. Real values are written:
# a program may load the file again.


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


def install(patches: Patches, overlay: Overlay, watch: Watch) -> None:
    save = torch.save

    def torch_save(obj: Any, f: Any, *args: Any, **kwargs: Any) -> None:
        # What is written into memory has no holes.
        with watch.within(SAVING), holes() if is_path(f) else nullcontext():
            save(obj, overlay.writable(f), *args, **kwargs)

    patches.set(torch, "save", torch_save)
