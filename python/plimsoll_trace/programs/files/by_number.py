"""Files that are opened below Python's `open`: by number with `os.open`, as `io.FileIO`, and as code that is run."""

from __future__ import annotations

import _io
import errno
import importlib.util
import io
import os
import tempfile
from typing import Any

from ...standins.patches import Patches
from .overlay import Overlay, is_path

# Python's own, which other classes of files are made of.
_FILE_IO = _io.FileIO
_CHANGES = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND
_WRITES = frozenset("wxa+")


def install(patches: Patches, overlay: Overlay) -> None:
    _numbers(patches, overlay)
    _file_io(patches, overlay)
    _code(patches, overlay)
    _named_temporary_files(patches)


def writes(mode: Any) -> bool:
    return isinstance(mode, str) and bool(_WRITES & set(mode))


def place_of(overlay: Overlay, path: Any, mode: Any) -> Any:
    """Where a file lies that is opened with such a mode."""
    if writes(mode):
        if "x" in mode and is_path(path) and overlay.exists(path):
            raise error_of(errno.EEXIST, path)
        return overlay.writable(path, keep=("a" in mode or "+" in mode) and "w" not in mode)
    return overlay.readable(path)


def _numbers(patches: Patches, overlay: Overlay) -> None:
    open_file, cut = os.open, os.truncate

    def opened(path: Any, flags: int, mode: int = 0o777, *, dir_fd: int | None = None) -> int:
        if not is_path(path) or dir_fd is not None or overlay.leaves_alone(path):
            return open_file(path, flags, mode, dir_fd=dir_fd)
        if not flags & _CHANGES:
            return open_file(overlay.readable(path), flags, mode)
        there = overlay.exists(path)
        if there and flags & os.O_CREAT and flags & os.O_EXCL:
            raise error_of(errno.EEXIST, path)
        if not there and not flags & os.O_CREAT:
            raise error_of(errno.ENOENT, path)
        target = overlay.writable(path, keep=not flags & os.O_TRUNC)
        # A copy that would be emptied at once is not made.
        return open_file(target, flags | os.O_CREAT, mode)

    def truncate(path: Any, length: int) -> None:
        if is_path(path) and not overlay.exists(path):
            raise error_of(errno.ENOENT, path)
        cut(overlay.writable(path, keep=True), length)

    patches.set(os, "open", opened)
    patches.set(os, "truncate", truncate)


def _file_io(patches: Patches, overlay: Overlay) -> None:
    class OfFiles(type(_FILE_IO)):  # type: ignore[misc]
        """What Python's `open` gives is one of these as well."""

        def __instancecheck__(cls, instance: Any) -> bool:
            return isinstance(instance, _FILE_IO)

    class FileIO(_FILE_IO, metaclass=OfFiles):
        def __init__(self, file: Any, mode: str = "r", *args: Any, **kwargs: Any) -> None:
            super().__init__(place_of(overlay, file, mode), mode, *args, **kwargs)

    patches.set(io, "FileIO", FileIO)
    patches.set(_io, "FileIO", FileIO)


def _code(patches: Patches, overlay: Overlay) -> None:
    open_code, spec_of = _io.open_code, importlib.util.spec_from_file_location

    def opened(path: str) -> Any:
        return open_code(overlay.readable(path))

    def spec_from_file_location(name: str, location: Any = None, **kwargs: Any) -> Any:
        return spec_of(name, overlay.readable(location), **kwargs)

    patches.set(io, "open_code", opened)
    patches.set(_io, "open_code", opened)
    patches.set(importlib.util, "spec_from_file_location", spec_from_file_location)


def _named_temporary_files(patches: Patches) -> None:
    """They keep the call that removes them from before the trace."""
    removes = vars(os)["unlink"]
    for held in vars(getattr(tempfile, "_TemporaryFileCloser", object)).values():
        defaults = getattr(held, "__defaults__", None) or ()
        if any(getattr(one, "__name__", "") == "unlink" for one in defaults):
            replaced = [
                removes if getattr(one, "__name__", "") == "unlink" else one for one in defaults
            ]
            patches.set(held, "__defaults__", tuple(replaced))


def error_of(number: int, path: Any) -> OSError:
    return OSError(number, os.strerror(number), os.fspath(path))
