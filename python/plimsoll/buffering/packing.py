"""A part as it lies in memory or in a file: one plane, or one for each byte of its numbers."""

from __future__ import annotations

import zlib
from dataclasses import dataclass
from typing import Any

from .compression import choose_compression, compressed, expanded, join_planes, split_planes
from .parts import ITEM_BYTES, About

# Smaller ones are not worth a compressor's start.
LEAST_BYTES = 1024


@dataclass(frozen=True)
class Plane:
    """One stretch of bytes: as they are ("none"), or compressed ("deflate")."""

    codec: str
    crc: int
    data: Any


@dataclass(frozen=True)
class PackedPart:
    about: About
    planes: tuple[Plane, ...]

    @property
    def bytes(self) -> int:
        return sum(len(plane.data) for plane in self.planes)


def pack(about: About, data: Any, compress: bool) -> PackedPart:
    width = ITEM_BYTES[about.dtype]
    small = not compress or len(data) < LEAST_BYTES
    choice = None if small else choose_compression(data, width)
    if choice is None:
        # A copy: the caller may change his own.
        return PackedPart(about, (_kept("none", data.tobytes()),))
    split = [data] if len(choice) == 1 else split_planes(data, width)
    return PackedPart(about, tuple(map(_packed, split, choice)))


def _packed(plane: Any, strategy: int | None) -> Plane:
    smaller = None if strategy is None else compressed(plane, strategy)
    # A copy, too: a row would keep all the planes of its array alive.
    return _kept("none", plane.tobytes()) if smaller is None else _kept("deflate", smaller)


def unpack(part: PackedPart, checked: bool = False) -> Any | None:
    """The flat array of bytes again; None where a byte is not what it was."""
    import numpy

    length = part.about.raw_bytes // len(part.planes)
    plain = []
    for plane in part.planes:
        if not checked and zlib.crc32(plane.data) != plane.crc:
            return None
        out = plane.data if plane.codec == "none" else expanded(plane.data, length)
        if out is None or len(out) != length:
            return None
        plain.append(numpy.frombuffer(out, dtype=numpy.uint8))
    return plain[0] if len(plain) == 1 else join_planes(plain)


def _kept(codec: str, data: Any) -> Plane:
    return Plane(codec, zlib.crc32(data), data)
