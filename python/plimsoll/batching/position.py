"""Where an iterator is, on disk: whole after kill -9, and after a power cut.

The file has two slots, written in turn: while one is being written the other is whole. It is mapped
into memory: a write takes a tenth of a microsecond and outlives the process; it is forced to the
disk every 5 s and at each commit.
"""

from __future__ import annotations

import mmap
import os
import struct
import time

from ..failure import Failure

# Magic, what seldom changes (a number that rises when it does, size, epoch), then what changes with each
# batch: start, check. In the machine's own byte order: each field is also a word of its own.
SLOT = struct.Struct("=8s5Q")
MAGIC = b"PLIMSOL2"
FILE_BYTES = 128
SECOND = 64
# Places in words of 8 bytes: the first slot's start and check, and how far the second slot is.
START, CHECK, SECOND_WORD = 4, 5, SECOND // 8
# Forcing a page to a busy disk can take a tenth of a second; a power cut then has some seconds done again.
SYNC_SECONDS = 5.0
# Any odd number with many bits does; it spreads a change in one field over the whole check.
SPREAD = 0x9E3779B97F4A7C15
MASK = 2**64 - 1


class PositionFile:
    """One process at a time has it; two that shared one would each skip what the other did.

    `words` and `base` are for programs that save with each batch: `words[START] = start` and
    `words[CHECK] = start ^ base`, in the slot that was not written last. All else is done here.
    """

    def __init__(self, path: str) -> None:
        self.path = path
        self._synced = time.monotonic()
        try:
            os.makedirs(os.path.dirname(os.path.abspath(path)), exist_ok=True)
            self._descriptor = os.open(
                path, os.O_RDWR | os.O_CREAT | getattr(os, "O_CLOEXEC", 0), 0o644
            )
        except OSError as error:
            raise Failure(
                "position-unwritable",
                f"{path}: {error.strerror}",
                "name another file for the position",
            ) from error
        try:
            _lock(self._descriptor, path)
            # Only once it is known to be ours is the file changed: a name given by mistake is left as it is.
            self.saved = self._newest(os.pread(self._descriptor, FILE_BYTES + 1, 0))
            os.ftruncate(self._descriptor, FILE_BYTES)
            self._map = mmap.mmap(self._descriptor, FILE_BYTES)
        except BaseException:
            os.close(self._descriptor)
            raise
        self.words = memoryview(self._map).cast("Q")
        self.base = 0
        self._kept = (-1, -1)

    def begin(self, start: int, size: int, epoch: int) -> None:
        """Saves a position that need not be later than the last, with all that belongs to it."""
        newest = max(self._slots(), key=_order, default=None)
        number = 1 if newest is None else newest["number"] + 1
        self.base = _base(number, size, epoch)
        self._kept = (size, epoch)
        slot = (MAGIC, number, size, epoch, start, start ^ self.base)
        # The older slot first: until it is whole, the newer one is.
        newer = SECOND if newest is None else newest["place"]
        for place in (newer ^ SECOND, newer):
            SLOT.pack_into(self._map, place, *slot)

    def save(self, start: int, size: int, epoch: int, durably: bool = False) -> None:
        if self._kept != (size, epoch) or not self._save_next(start):
            self.begin(start, size, epoch)
        if durably or time.monotonic() - self._synced >= SYNC_SECONDS:
            self._map.flush()
            self._synced = time.monotonic()

    def close(self) -> None:
        if not self._map.closed:
            self._map.flush()
            self.words.release()
            self._map.close()
            os.close(self._descriptor)

    def _save_next(self, start: int) -> bool:
        """A later position in the older slot; False where that would not do."""
        words = self.words
        newer = SECOND_WORD if words[SECOND_WORD + START] > words[START] else 0
        last = words[newer + START]
        # Somebody's Ctrl-C may have come between the two words.
        if start < last or words[newer + CHECK] != last ^ self.base:
            return False
        words[(newer ^ SECOND_WORD) + START] = start
        words[(newer ^ SECOND_WORD) + CHECK] = start ^ self.base
        return True

    def _newest(self, content: bytes) -> dict[str, int] | None:
        if not content.strip(b"\0"):
            return None
        states = _slots(content)
        if not states or len(content) > FILE_BYTES:
            raise Failure(
                "position-unreadable",
                f"{self.path} is not a position file",
                "name the file that plimsoll.batches wrote, or delete this one to start at the first sample",
            )
        return max(states, key=_order)

    def _slots(self) -> list[dict[str, int]]:
        return _slots(self._map[:FILE_BYTES])


def _slots(content: bytes) -> list[dict[str, int]]:
    return [state for state in (_whole(content, 0), _whole(content, SECOND)) if state]


def _order(state: dict[str, int]) -> tuple[int, int]:
    return state["number"], state["next"]


def _base(number: int, size: int, epoch: int) -> int:
    return ((number * SPREAD ^ size) * SPREAD ^ epoch) * SPREAD & MASK


def _whole(content: bytes, place: int) -> dict[str, int] | None:
    """A slot's state; None where it was cut short or is not ours."""
    if len(content) < place + SLOT.size:
        return None
    magic, number, size, epoch, start, check = SLOT.unpack_from(content, place)
    if magic != MAGIC or check != start ^ _base(number, size, epoch):
        return None
    return {"number": number, "next": start, "size": size, "epoch": epoch, "place": place}


def _lock(descriptor: int, path: str) -> None:
    try:
        import fcntl
    except ImportError:
        return
    try:
        fcntl.lockf(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except (BlockingIOError, PermissionError):
        raise Failure(
            "position-in-use",
            f"{path} is in use by another process that is running",
            "give each process (each rank) a file of its own",
        ) from None
    except OSError:
        # A network file system without locks; one is then trusted to be alone.
        pass
