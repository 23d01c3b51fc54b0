"""`plimsoll.buffers()`: keeps bytes, arrays, tensors and dicts of them within a limit of memory."""

from __future__ import annotations

import contextlib
import hashlib
import json
import mmap
import os
import re
import struct
import threading
import weakref
import zlib
from dataclasses import dataclass
from typing import Any, Callable

from ..arguments import BadValue, one_of, path, shown, size
from ..bridge import reporter
from ..failure import MISSING_PACKAGE, Failure
from ..memory import host
from ..memory.load_line import LOAD_LINE
from .adaptive_cache import AdaptiveCache
from .packing import ITEM_BYTES, About, PackedPart, Plane, pack, parts_of, unpack, value_of

# A value as one file holds it; `docs/buffers.md` describes the bytes.

MAGIC = b"PLIMBUF1"
# Magic, length of the header, its checksum.
PREFIX = struct.Struct("<8sII")
# Planes begin at multiples of this, so that numbers in a mapped file are aligned.
ALIGNMENT = 64
# A header names each part and its planes in about 200 bytes; this is a dict of 5,000 parts.
MAX_HEADER_BYTES = 1_048_576
# NumPy has no more dimensions either.
MAX_DIMENSIONS = 64
# What JavaScript holds exactly.
MAX_COUNT = 2**53 - 1
KINDS = ("bytes", "array", "tensor")
CODECS = ("none", "deflate")


@dataclass(frozen=True)
class Record:
    key: str
    dictionary: bool
    parts: tuple[PackedPart, ...]

    @property
    def raw_bytes(self) -> int:
        return sum(part.about.raw_bytes for part in self.parts)


def encode(record: Record) -> list[Any]:
    """The pieces of a file, in order; together they are its bytes."""
    header = json.dumps(
        {
            "key": record.key,
            "dictionary": record.dictionary,
            "parts": [_described(part) for part in record.parts],
        }
    ).encode()
    pieces: list[Any] = [PREFIX.pack(MAGIC, len(header), zlib.crc32(header)), header]
    at = PREFIX.size + len(header)
    for plane in (plane for part in record.parts for plane in part.planes):
        begin = _aligned(at)
        pieces += [bytes(begin - at), plane.data]
        at = begin + len(plane.data)
    return pieces


def decode(file: Any) -> Record | None:
    """The record in the bytes of a whole file, its planes not copied; None where it is damaged.

    The checksums of the planes are not looked at here: that is done when a plane is used.
    """
    view = memoryview(file)
    if len(view) < PREFIX.size:
        return None
    magic, length, crc = PREFIX.unpack_from(view)
    if magic != MAGIC or length > MAX_HEADER_BYTES or PREFIX.size + length > len(view):
        return None
    header = bytes(view[PREFIX.size : PREFIX.size + length])
    if zlib.crc32(header) != crc:
        return None
    try:
        return _placed(json.loads(header), view, PREFIX.size + length)
    except (ValueError, TypeError, KeyError, RecursionError):
        return None


def _described(part: PackedPart) -> dict[str, Any]:
    return {
        "name": part.about.name,
        "kind": part.about.kind,
        "dtype": part.about.dtype,
        "shape": list(part.about.shape),
        "planes": [[plane.codec, len(plane.data), plane.crc] for plane in part.planes],
    }


def _placed(header: Any, view: memoryview, at: int) -> Record | None:
    parts = []
    for found in header["parts"]:
        about = _about(found)
        planes = []
        for codec, stored, crc in found["planes"]:
            _check(codec in CODECS and _is_count(stored) and _is_count(crc))
            begin = _aligned(at)
            at = begin + stored
            _check(at <= len(view))
            planes.append(Plane(codec, crc, view[begin:at]))
        _check(len(planes) in (1, ITEM_BYTES[about.dtype]))
        # One that is kept as it is has exactly the bytes that the shape says.
        length = about.raw_bytes // len(planes)
        _check(all(plane.codec != "none" or len(plane.data) == length for plane in planes))
        parts.append(PackedPart(about, tuple(planes)))
    key, dictionary = header["key"], header["dictionary"]
    _check(isinstance(key, str) and isinstance(dictionary, bool))
    _check(at == len(view) and (dictionary or len(parts) == 1))
    return Record(key, dictionary, tuple(parts))


def _about(found: Any) -> About:
    name, kind, dtype, shape = found["name"], found["kind"], found["dtype"], found["shape"]
    _check(isinstance(name, str) and kind in KINDS and dtype in ITEM_BYTES)
    _check(isinstance(shape, list) and len(shape) <= MAX_DIMENSIONS and all(map(_is_count, shape)))
    about = About(name, kind, dtype, tuple(shape))
    _check(about.raw_bytes <= MAX_COUNT)
    return about


def _check(good: bool) -> None:
    if not good:
        raise ValueError


def _is_count(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= MAX_COUNT


def _aligned(at: int) -> int:
    return -(-at // ALIGNMENT) * ALIGNMENT


# Estimated: key, entries of dicts, views; so that a million small items do not pass the limit.
ITEM_OVERHEAD_BYTES = 512
# Longer ones are data, not names.
LONGEST_KEY = 4096
# How often a store of automatic size looks at the machine's memory.
ADJUST_SECONDS = 1.0

_living: weakref.WeakSet[BufferStore] = weakref.WeakSet()


# How much memory a store of automatic size may hold: the rule of src/buffers/buffer-store.ts.

# A store never plans with more than this part of the machine.
MAX_SHARE = 0.5


def auto_limit(used_bytes: int, total_bytes: int, held_bytes: int) -> int:
    """What it holds now, and what is free below the load line; less than it holds above the line.

    >>> auto_limit(used_bytes=95, total_bytes=100, held_bytes=20)
    15
    """
    free = LOAD_LINE * total_bytes - used_bytes
    return int(min(MAX_SHARE * total_bytes, max(0, held_bytes + free)))


def host_memory() -> tuple[int, int] | None:
    """(used, total) of the machine, or of the tightest cgroup; None where they cannot be read."""
    machine = host.machine()
    total, available = machine.get("MemTotal"), machine.get("MemAvailable")
    if total is None or available is None:
        return None
    limit = host.cgroup_limit()
    used = total - available
    if limit is not None and limit < total:
        return max(host.resident_bytes(), used - (total - limit)), limit
    return used, total


class Tier:
    """One place where items lie, with its own limit: memory, or a folder."""

    def __init__(self, limit_bytes: int, drop: Callable[[str], None] = lambda _: None) -> None:
        self.items: dict[str, Any] = {}
        self.evictions = 0
        self.raw_bytes = 0
        self._raw: dict[str, int] = {}
        self._cache = AdaptiveCache(limit_bytes)
        self._drop = drop

    @property
    def bytes(self) -> int:
        return self._cache.bytes

    @property
    def limit_bytes(self) -> int:
        return self._cache.limit_bytes

    def use(self, key: str) -> Any | None:
        """The item, if it is here; asking counts, also for one that is not."""
        self._cache.use(key)
        return self.items.get(key)

    def add(self, key: str, item: Any, size: int, raw_bytes: int) -> None:
        self._forget(key)
        self.items[key] = item
        self._raw[key] = raw_bytes
        self.raw_bytes += raw_bytes
        self._evict(self._cache.add(key, size))

    def remove(self, key: str) -> bool:
        """Takes an item out; True where it was here."""
        self._cache.remove(key)
        return self._forget(key)

    def resize(self, limit_bytes: int) -> None:
        self._evict(self._cache.resize(limit_bytes))

    def _evict(self, keys: list[str]) -> None:
        for key in keys:
            self.evictions += self._forget(key)
            self._drop(key)

    def _forget(self, key: str) -> bool:
        self.raw_bytes -= self._raw.pop(key, 0)
        return self.items.pop(key, None) is not None


ITEM_NAME = re.compile(r"[0-9a-f]{32}\.buffer")
UNFINISHED_NAME = re.compile(r"[0-9a-f]{32}\.(\d{1,10})\.tmp")


class ItemFolder:
    """One file an item. A file gets its name when it is whole, so a process that is killed leaves either
    the old item, the new one, or a file that the next one removes.
    """

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


class BufferStore:
    """Compressed where that pays, large items in files, the least useful dropped first."""

    def __init__(
        self,
        limit: int | str,
        folder: str | None,
        file_above: int,
        file_limit: int,
        compression: str,
        read_memory: Callable[[], tuple[int, int] | None] = host_memory,
    ) -> None:
        self._auto = limit == "auto"
        self._compress = one_of("compression", compression, ("auto", "none")) == "auto"
        self._file_above = size("file_above", file_above)
        self._read_memory = read_memory
        self._memory = Tier(0 if self._auto else size("limit", limit))
        self._folder = None if folder is None else ItemFolder(path("folder", folder, "frames"))
        self._files = Tier(size("file_limit", file_limit), self._drop_file)
        self._hits = self._misses = self._damaged = 0
        self._checked: set[str] = set()
        self._lock = threading.RLock()
        self._stop = threading.Event()
        self._take_up()
        _living.add(self)
        reporter.sources["buffers"] = buffer_figures
        if self._auto:
            self.adjust()
            threading.Thread(
                target=_adjust_while_used,
                args=(weakref.ref(self), self._stop),
                name="plimsoll-buffers",
                daemon=True,
            ).start()

    def put(self, key: str, value: Any) -> bool:
        """Keeps a value in place of the one before. When it returns True, a file is complete.

        False: the size is automatic, and the machine has no room for it now.
        """
        _check_key(key)
        dictionary, parts = parts_of(value)
        packed = tuple(pack(about, data, self._compress) for about, data in parts)
        record = Record(key, dictionary, packed)
        kept = sum(part.bytes for part in packed)
        with self._lock:
            if self._folder is not None and kept >= self._file_above:
                return self._put_in_file(self._folder, record)
            return self._put_in_memory(record, kept + 2 * len(key) + ITEM_OVERHEAD_BYTES)

    def get(self, key: str) -> Any:
        """The value; None where it was never put, was dropped, or is damaged. Arrays are read-only."""
        _check_key(key)
        with self._lock:
            in_file = self._files.use(key)
            held = self._memory.use(key)
            record = self._folder.read(key) if in_file and self._folder is not None else held
            value = None if record is None else self._unpacked(record, bool(in_file))
            if value is None and (in_file or held is not None):
                self._damaged += 1
                self.delete(key)
            self._hits += value is not None
            self._misses += value is None
        return value

    def __contains__(self, key: str) -> bool:
        return key in self._memory.items or key in self._files.items

    def __len__(self) -> int:
        return len(self._memory.items) + len(self._files.items)

    def keys(self) -> list[str]:
        return [*self._memory.items, *self._files.items]

    def delete(self, key: str) -> bool:
        """Removes an item; True where there was one."""
        _check_key(key)
        with self._lock:
            in_file = self._files.remove(key)
            if in_file:
                self._drop_file(key)
            return self._memory.remove(key) or in_file

    def adjust(self) -> None:
        """Looks at the machine's memory now, where the size is automatic; a thread does it every second."""
        reading = self._read_memory() if self._auto else None
        if reading is not None:
            with self._lock:
                self._memory.resize(auto_limit(*reading, held_bytes=self._memory.bytes))

    def statistics(self) -> dict[str, Any]:
        """What it did since it was opened, and what it holds now; measured."""
        with self._lock:
            memory, files = self._memory, self._files
            asked, held = self._hits + self._misses, memory.bytes + files.bytes
            raw = memory.raw_bytes + files.raw_bytes
            return {
                "items": len(self),
                "hits": self._hits,
                "misses": self._misses,
                "hitRate": self._hits / asked if asked else "unknown",
                "evictions": memory.evictions + files.evictions,
                "damaged": self._damaged,
                "memoryBytes": memory.bytes,
                "memoryLimitBytes": memory.limit_bytes,
                "fileBytes": files.bytes,
                "fileLimitBytes": files.limit_bytes,
                "rawBytes": raw,
                "compressionRatio": raw / held if held else "unknown",
            }

    def close(self) -> None:
        """Stops looking at memory. Files stay; the next store on the folder finds them."""
        self._stop.set()

    def __enter__(self) -> BufferStore:
        return self

    def __exit__(self, *_: Any) -> None:
        self.close()

    def _put_in_file(self, folder: ItemFolder, record: Record) -> bool:
        pieces = encode(record)
        file_bytes = sum(len(piece) for piece in pieces)
        _check_fits(file_bytes, self._files.limit_bytes, "file_limit")
        folder.write(record.key, pieces)
        self._memory.remove(record.key)
        self._checked.discard(record.key)
        self._files.add(record.key, True, file_bytes, record.raw_bytes)
        return True

    def _put_in_memory(self, record: Record, held_bytes: int) -> bool:
        fits = held_bytes <= self._memory.limit_bytes
        if not self._auto:
            _check_fits(held_bytes, self._memory.limit_bytes, "limit")
        if self._files.remove(record.key):
            self._drop_file(record.key)
        if fits:
            self._memory.add(record.key, record, held_bytes, record.raw_bytes)
        else:
            self._memory.remove(record.key)
        return fits

    def _unpacked(self, record: Record, in_file: bool) -> Any:
        # A mapped file is checked when it is first read; after that it costs no pass over its bytes.
        checked = in_file and record.key in self._checked
        parts = [(part.about, unpack(part, checked)) for part in record.parts]
        if any(data is None for _, data in parts):
            return None
        if in_file:
            self._checked.add(record.key)
        return value_of(record.dictionary, parts)

    def _drop_file(self, key: str) -> None:
        self._checked.discard(key)
        if self._folder is not None:
            self._folder.remove(key)

    def _take_up(self) -> None:
        found, self._damaged = self._folder.open() if self._folder is not None else ([], 0)
        for record, file_bytes in found:
            self._files.add(record.key, True, file_bytes, record.raw_bytes)


def buffers(
    *,
    limit: int | str = "auto",
    folder: str | None = None,
    file_above: int = 2**20,
    file_limit: int = 10 * 2**30,
    compression: str = "auto",
) -> BufferStore:
    """A store for bytes, NumPy arrays, tensors and dicts of them that keeps within a limit.

        store = plimsoll.buffers(limit=2**30, folder="frames")
        store.put("frame/1", frame)
        frame = store.get("frame/1")    # None where it was dropped

    `limit` is the memory for items in bytes; "auto" follows what the machine has free. With a `folder`,
    items that take `file_above` bytes or more lie in files there, up to `file_limit` in all, and are
    found again by the next store on that folder.
    """
    return BufferStore(limit, folder, file_above, file_limit, compression)


def _adjust_while_used(store: weakref.ref[BufferStore], stop: threading.Event) -> None:
    while not stop.wait(ADJUST_SECONDS):
        living = store()
        if living is None:
            return
        living.adjust()
        del living


def _check_key(key: Any) -> None:
    good = isinstance(key, str) and 0 < len(key) <= LONGEST_KEY
    if not good or any(0xD800 <= ord(one) < 0xE000 for one in key):
        fact = f"a key must be a text of 1 to {LONGEST_KEY} characters, not {shown(key)}"
        raise BadValue(fact, "pass such a text")


def _check_fits(needed: int, limit: int, name: str) -> None:
    if needed > limit:
        fact = f"the item takes {needed} bytes, and the store may hold {limit} in all"
        raise BadValue(fact, f"raise {name}, or split the item")


def buffer_figures() -> dict[str, Any] | None:
    """Of all stores of this process together, for the report of a run; None where there is none."""
    stores = [store.statistics() for store in list(_living)]
    names = ("items", "hits", "misses", "evictions", "memoryBytes", "fileBytes", "rawBytes")
    return {name: sum(one[name] for one in stores) for name in names} if stores else None
