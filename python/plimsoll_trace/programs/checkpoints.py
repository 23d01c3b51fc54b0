"""Files of `torch.save` and `torch.load`: those of this trace, and those that a real GPU wrote.

A file says of each storage where it was: on the GPU, in host memory with values, or there without any. It
is restored once, however many tensors lie in it. Files are mapped rather than read: of weights that go to
the GPU only names, types and shapes are looked at.
"""

from __future__ import annotations

import os
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from typing import Any

import torch
from torch.storage import TypedStorage

from ..standins.patches import Patches
from .files.overlay import Overlay, is_path
from .places import GPU, HOST, META, Places
from .watch import SAVING, Watch

# `torch.save` of a program: into the trace's own folder, without the values that tensors do not have.

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


def install_saving(patches: Patches, overlay: Overlay, watch: Watch) -> None:
    save = torch.save

    def torch_save(obj: Any, f: Any, *args: Any, **kwargs: Any) -> None:
        # What is written into memory has no holes.
        with watch.within(SAVING), holes() if is_path(f) else nullcontext():
            save(obj, overlay.writable(f), *args, **kwargs)

    patches.set(torch, "save", torch_save)


# What PyTorch calls the places; the last is its `cpu` for storages that have no memory here.
_TAGS = {GPU: "cuda:0", META: "meta", HOST: "cpu:0"}
_WITH_VALUES = "cpu"
# From this size on reading takes longer than mapping.
_LARGE = 16 << 20
# Up to this size values go with a tensor to the GPU: counters, which decide what a program does next.
_SMALL = 64


def install_checkpoints(patches: Patches, overlay: Overlay, places: Places, watch: Watch) -> None:
    load, tag = torch.load, torch.serialization.location_tag

    def location_tag(storage: Any) -> Any:
        untyped = getattr(storage, "_untyped_storage", storage)
        if untyped.device.type != "meta":
            return tag(storage)
        return _TAGS[places.of_storage(untyped)]

    def torch_load(f: Any, map_location: Any = None, *args: Any, **kwargs: Any) -> Any:
        own = overlay.holds(f)
        watch.loads_weights = True
        f = _path_of(overlay.readable(f))
        zipped = _is_zip(f)
        if zipped and not args and _is_path(f) and (own or os.path.getsize(f) >= _LARGE):
            kwargs.setdefault("mmap", True)
        placing = _Placing(map_location, places, own, zipped)
        read = Patches()
        # PyTorch knows a storage again, for the next tensor that lies in it, if it has an address.
        read.set(TypedStorage, "_data_ptr", _address)
        try:
            loaded = load(f, placing, *args, **kwargs)
        finally:
            read.undo()
        return _moved(loaded) if placing.left else loaded

    patches.set(torch, "load", torch_load)
    patches.set(torch.serialization, "location_tag", location_tag)


def _address(storage: Any) -> int:
    untyped = storage._untyped_storage
    return untyped._cdata if untyped.device.type == "meta" else untyped.data_ptr()


class _Placing:
    """Says where each storage of a file goes, as `map_location` does."""

    def __init__(self, wanted: Any, places: Places, own: bool, zipped: bool):
        self._wanted, self._places, self._own, self._zipped = wanted, places, own, zipped
        # Whether any was read that belongs on the GPU, where it is moved afterwards.
        self.left = False

    def __call__(self, storage: Any, location: str) -> Any:
        place = self._place(location)
        size = storage.nbytes()
        others = not self._own and location != _TAGS[HOST]
        known = others or location == _WITH_VALUES
        # Files of the older kind are read into what is given here.
        if not self._zipped or (known and (place == HOST or size <= _SMALL)):
            self.left = self.left or place == GPU
            return storage
        bare = torch.UntypedStorage(size, device="meta")
        if place != GPU:
            self._places.remember(bare, place)
        return bare

    def _place(self, location: str) -> str:
        wanted = self._wanted
        if callable(wanted):
            # Nearly always the storage itself, as it was read.
            return HOST
        if isinstance(wanted, dict):
            wanted = wanted.get(location)
        kind = str(torch.device(location if wanted is None else wanted)).partition(":")[0]
        return {"cuda": GPU, "meta": META}.get(kind, HOST)


def _is_path(f: Any) -> bool:
    return isinstance(f, (str, os.PathLike))


def _path_of(f: Any) -> Any:
    """The path of a file that a program has opened and not yet read from: paths can be mapped."""
    name = getattr(f, "name", None)
    if not isinstance(name, str) or not hasattr(f, "tell") or not os.path.isfile(name):
        return f
    return name if f.tell() == 0 else f


def _is_zip(f: Any) -> bool:
    try:
        return zipfile.is_zipfile(f) if _is_path(f) else torch.serialization._is_zipfile(f)
    except (OSError, AttributeError):
        return False


def _moved(value: Any) -> Any:
    """The same value with what is left of its tensors on the GPU; containers stay the objects they are."""
    if isinstance(value, torch.Tensor):
        return value.cuda()
    if isinstance(value, torch.nn.Module):
        return value.cuda()
    if isinstance(value, TypedStorage):
        # `pickle` writes one by one.
        bare = torch.UntypedStorage(value._untyped_storage.nbytes(), device="meta")
        return TypedStorage(wrap_storage=bare, dtype=value.dtype, _internal=True)
    if isinstance(value, dict):
        for key in value:
            value[key] = _moved(value[key])
    elif isinstance(value, list):
        value[:] = map(_moved, value)
    elif type(value) is tuple:
        return tuple(map(_moved, value))
    return value
