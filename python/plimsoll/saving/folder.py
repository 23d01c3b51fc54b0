"""The folder of a training's checkpoints: each file is whole or not there, and the newest few are kept.

A file is named after its step and its SHA-256, so that one rename makes it known together with its check.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import re
from collections.abc import Iterator
from typing import Any, Callable

from ..failure import Failure

NAME = re.compile(r"checkpoint-(\d{12})-([0-9a-f]{64})\.pt")
UNFINISHED = re.compile(r"checkpoint-\d{12}\.tmp")
READ_BYTES = 2**20


class CheckpointFolder:
    """One process at a time has it."""

    def __init__(self, path: str, keep: int) -> None:
        self.path = path
        self._keep = keep
        try:
            os.makedirs(path, exist_ok=True)
            self._lock = os.open(os.path.join(path, "lock"), os.O_RDWR | os.O_CREAT, 0o644)
        except OSError as error:
            raise _unwritable(path, error) from error
        _take(self._lock, path)
        for name in os.listdir(path):
            if UNFINISHED.fullmatch(name):
                os.remove(os.path.join(path, name))
        self._remove_old()

    def write(self, step: int, write: Callable[[Any], None]) -> str:
        """When it returns, the checkpoint is on the disk; until then the one before it is the newest."""
        unfinished = os.path.join(self.path, f"checkpoint-{step:012d}.tmp")
        try:
            with open(unfinished, "wb") as file:
                checked = _Checked(file)
                write(checked)
                file.flush()
                os.fsync(file.fileno())
            path = os.path.join(self.path, f"checkpoint-{step:012d}-{checked.digest()}.pt")
            os.replace(unfinished, path)
            self._sync()
            self._remove_old()
        except OSError as error:
            with contextlib.suppress(OSError):
                os.remove(unfinished)
            raise _unwritable(self.path, error) from error
        return path

    def newest(self) -> Iterator[tuple[int, str]]:
        """(step, file) of those that are as they were written, the newest first."""
        for step, path in sorted(self._files(), reverse=True):
            named = NAME.fullmatch(os.path.basename(path))
            if named is not None and _digest_of(path) == named[2]:
                yield step, path

    def count(self) -> int:
        return len(self._files())

    def close(self) -> None:
        if self._lock >= 0:
            os.close(self._lock)
            self._lock = -1

    def _files(self) -> list[tuple[int, str]]:
        names = ((NAME.fullmatch(name), name) for name in os.listdir(self.path))
        return [(int(found[1]), os.path.join(self.path, name)) for found, name in names if found]

    def _remove_old(self) -> None:
        for _, old in sorted(self._files(), reverse=True)[self._keep :]:
            os.remove(old)

    def _sync(self) -> None:
        folder = os.open(self.path, os.O_RDONLY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)


class _Checked:
    """A file that is written from its start to its end, and its digest."""

    def __init__(self, file: Any) -> None:
        self._file = file
        self._hash = hashlib.sha256()

    def write(self, data: Any) -> int:
        self._hash.update(data)
        return int(self._file.write(data))

    def flush(self) -> None:
        self._file.flush()

    def digest(self) -> str:
        return self._hash.hexdigest()


def _digest_of(path: str) -> str:
    digest = hashlib.sha256()
    try:
        with open(path, "rb") as file:
            while piece := file.read(READ_BYTES):
                digest.update(piece)
    except OSError:
        return ""
    return digest.hexdigest()


def _take(lock: int, path: str) -> None:
    try:
        import fcntl
    except ImportError:
        return
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        os.close(lock)
        raise Failure(
            "checkpoints-in-use",
            f"another process writes checkpoints to {path}",
            "name another folder, or end that process",
        ) from error


def _unwritable(path: str, error: OSError) -> Failure:
    return Failure(
        "checkpoints-unwritable",
        f"{path}: {error.strerror or error}",
        "name a folder that can be written to, on a disk with room",
    )
