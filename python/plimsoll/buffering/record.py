"""A value as one file holds it; `docs/buffers.md` describes the bytes."""

from __future__ import annotations

import json
import struct
import zlib
from dataclasses import dataclass
from typing import Any

from .packing import PackedPart, Plane
from .parts import ITEM_BYTES, About

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
        for codec, size, crc in found["planes"]:
            _check(codec in CODECS and _is_count(size) and _is_count(crc))
            begin = _aligned(at)
            at = begin + size
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
