"""Where an iterator is, on disk: whole after kill -9, and after a power cut.

The file has two slots, written in turn: while one is being written the other is whole. It is mapped
into memory: a write costs less than a microsecond and outlives the process; it is forced to the disk
every 5 s and at each commit.
"""

from __future__ import annotations

import mmap
import os
import struct
import time
from typing import Dict, Optional

from ..failure import Failure

SLOT = struct.Struct("<8s5Q")
MAGIC = b"PLIMSOL1"
FILE_BYTES = 128
SECOND = 64
# Forcing a page to a busy disk can take a tenth of a second; a power cut then has some seconds done again.
SYNC_SECONDS = 5.0
# Any odd number with many bits does; it spreads a change in one field over the whole check.
SPREAD = 0x9E3779B97F4A7C15
MASK = 2**64 - 1


class PositionFile:
    def __init__(self, path: str) -> None:
        self.path = path
        self._turn = 0
        self._synced = time.monotonic()
        try:
            os.makedirs(os.path.dirname(os.path.abspath(path)), exist_ok=True)
            descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o644)
        except OSError as error:
            raise Failure(
                "position-unwritable", f"{path}: {error.strerror}", "name another file for the position"
            ) from error
        try:
            # Only once it is known to be ours is the file changed: a name given by mistake is left as it is.
            self.saved = self._newest(os.pread(descriptor, FILE_BYTES + 1, 0))
            os.ftruncate(descriptor, FILE_BYTES)
            self._map = mmap.mmap(descriptor, FILE_BYTES)
        finally:
            os.close(descriptor)

    def save(self, start: int, size: int, epoch: int, durably: bool = False) -> None:
        turn = self._turn = self._turn + 1
        check = (((turn * SPREAD ^ start) * SPREAD ^ size) * SPREAD ^ epoch) & MASK
        SLOT.pack_into(self._map, (turn & 1) * SECOND, MAGIC, turn, start, size, epoch, check)
        if durably or time.monotonic() - self._synced >= SYNC_SECONDS:
            self._map.flush()
            self._synced = time.monotonic()

    def close(self) -> None:
        if not self._map.closed:
            self._map.flush()
            self._map.close()

    def _newest(self, content: bytes) -> Optional[Dict[str, int]]:
        if not content.strip(b"\0"):
            return None
        states = [state for state in (_whole(content, 0), _whole(content, SECOND)) if state]
        if not states or len(content) > FILE_BYTES:
            raise Failure(
                "position-unreadable",
                f"{self.path} holds no position",
                "name the file that plimsoll.batches wrote, or delete this one to start at the first sample",
            )
        newest = max(states, key=lambda state: state["turn"])
        self._turn = newest["turn"]
        return newest


def _whole(content: bytes, place: int) -> Optional[Dict[str, int]]:
    """A slot's state; None where it was cut short or is not ours."""
    if len(content) < place + SLOT.size:
        return None
    magic, turn, start, size, epoch, check = SLOT.unpack_from(content, place)
    if magic != MAGIC or check != (((turn * SPREAD ^ start) * SPREAD ^ size) * SPREAD ^ epoch) & MASK:
        return None
    return {"turn": turn, "next": start, "size": size, "epoch": epoch}
