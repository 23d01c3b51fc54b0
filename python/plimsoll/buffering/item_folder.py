"""One file an item. A file gets its name when it is whole, so a process that is killed leaves either
the old item, the new one, or a file that the next one removes.
"""

from __future__ import annotations

import contextlib
import hashlib
import mmap
import os
import re
from typing import Any

from ..failure import MISSING_PACKAGE, Failure
from .record import Record, decode

ITEM_NAME = re.compile(r"[0-9a-f]{32}\.buffer")
UNFINISHED_NAME = re.compile(r"[0-9a-f]{32}\.(\d{1,10})\.tmp")


class ItemFolder:
    def __init__(self, folder: str) -> None:
        self.folder = folder
        try:
            os.makedirs(folder, exist_ok=True)
        except OSError as error:
            raise _cannot_write(folder, error) from error

    def open(self) -> tuple[list[tuple[Record, int]], int]:
        """The items that are there with the bytes of their files, oldest first, and how many were
        damaged. Unfinished and damaged files are removed.
        """
        found = []
        damaged = 0
        for name in os.listdir(self.folder):
            unfinished = UNFINISHED_NAME.fullmatch(name)
            if unfinished and not _is_alive(int(unfinished[1])):
                self._remove(name)
            if not ITEM_NAME.fullmatch(name):
                continue
            mapped = self._map(name)
            record = None if mapped is None else decode(mapped)
            if record is None or mapped is None or _file_of(record.key) != name:
                damaged += 1
                self._remove(name)
                continue
            with contextlib.suppress(FileNotFoundError):
                changed = os.stat(os.path.join(self.folder, name)).st_mtime_ns
                found.append((changed, record, len(mapped)))
        found.sort(key=lambda one: one[0])
        return [(record, size) for _, record, size in found], damaged

    def write(self, key: str, pieces: list[Any]) -> None:
        """Writes the pieces of a record. When it returns, the file is complete."""
        path = os.path.join(self.folder, _file_of(key))
        unfinished = f"{path[: -len('.buffer')]}.{os.getpid()}.tmp"
        try:
            descriptor = os.open(unfinished, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
            with open(descriptor, "wb") as file:
                file.writelines(pieces)
            os.replace(unfinished, path)
        except OSError as error:
            with contextlib.suppress(OSError):
                os.unlink(unfinished)
            raise _cannot_write(self.folder, error) from error

    def read(self, key: str) -> Record | None:
        """The record of a key, mapped; None where it is gone or damaged."""
        mapped = self._map(_file_of(key))
        record = None if mapped is None else decode(mapped)
        return record if record is not None and record.key == key else None

    def remove(self, key: str) -> None:
        self._remove(_file_of(key))

    def _map(self, name: str) -> mmap.mmap | None:
        try:
            with open(os.path.join(self.folder, name), "rb") as file:
                return mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
        except (OSError, ValueError):
            # An empty file cannot be mapped.
            return None

    def _remove(self, name: str) -> None:
        with contextlib.suppress(OSError):
            os.unlink(os.path.join(self.folder, name))


def _file_of(key: str) -> str:
    return f"{hashlib.sha256(key.encode()).hexdigest()[:32]}.buffer"


def _is_alive(pid: int) -> bool:
    if pid == os.getpid():
        return False
    try:
        os.kill(pid, 0)
        return True
    except PermissionError:
        return True
    except OSError:
        return False


def _cannot_write(folder: str, error: OSError) -> Failure:
    fact = f"buffers cannot be written to {folder}: {error.strerror or error}"
    next_step = "free some space there, or name a folder that can be written"
    return Failure("cannot-write", fact, next_step, status=MISSING_PACKAGE)
