"""A part as it lies in memory or in a file: one plane, or one for each byte of its numbers."""

from __future__ import annotations

import math
import sys
import zlib
from dataclasses import dataclass
from typing import Any

from ..arguments import BadType, BadValue, shown

# What a store keeps: bytes, NumPy arrays, tensors and dicts of them, as parts with their meaning.

# Numbers that an array may hold, with the bytes of one.
ITEM_BYTES = {
    "bool": 1, "int8": 1, "uint8": 1, "int16": 2, "uint16": 2, "float16": 2, "bfloat16": 2,
    "int32": 4, "uint32": 4, "float32": 4, "int64": 8, "uint64": 8, "float64": 8,
}  # fmt: skip


@dataclass(frozen=True)
class About:
    """The meaning of the bytes of a part. The name is "" for a value that is one part."""

    name: str
    kind: str
    dtype: str
    shape: tuple[int, ...]

    @property
    def raw_bytes(self) -> int:
        return math.prod(self.shape) * ITEM_BYTES[self.dtype]


def parts_of(value: Any) -> tuple[bool, list[tuple[About, Any]]]:
    """Whether it is a dict, and its parts with a flat array of bytes each. Other things are refused."""
    if not isinstance(value, dict):
        return False, [_part("", value)]
    for name in value:
        if not isinstance(name, str):
            raise BadType(f"names in a dict must be texts, not {shown(name)}", "pass such names")
    return True, [_part(name, one) for name, one in value.items()]


def value_of(dictionary: bool, parts: list[tuple[About, Any]]) -> Any:
    """Returns the stored value from flat arrays of bytes. Arrays are read-only: they may lie in a mapped file."""
    if not dictionary:
        return _value(*parts[0])
    return {about.name: _value(about, data) for about, data in parts}


def _part(name: str, value: Any) -> tuple[About, Any]:
    import numpy

    if isinstance(value, (bytes, bytearray, memoryview)):
        data = numpy.frombuffer(value, dtype=numpy.uint8)
        return About(name, "bytes", "uint8", (data.size,)), data
    torch = sys.modules.get("torch")
    if torch is not None and isinstance(value, torch.Tensor):
        return _tensor(name, value, torch)
    if not isinstance(value, (numpy.ndarray, numpy.generic)):
        fact = f"a store keeps bytes, arrays, tensors and dicts of them, not {shown(value)}"
        raise BadType(fact, "pass one of those")
    array = numpy.asarray(value)
    if array.dtype.name not in ITEM_BYTES:
        fact = f"a store keeps numbers, not arrays of {array.dtype.name}"
        raise BadValue(fact, "convert the array, for example with .astype('float32')")
    flat = array.astype(array.dtype.newbyteorder("<"), copy=False).reshape(-1)
    return About(name, "array", array.dtype.name, array.shape), _bytes_of(flat)


def _tensor(name: str, value: Any, torch: Any) -> tuple[About, Any]:
    dtype = str(value.dtype).removeprefix("torch.")
    if dtype not in ITEM_BYTES or value.layout != torch.strided:
        fact = f"a store keeps plain tensors of numbers, not {dtype} ({value.layout})"
        raise BadValue(fact, "convert the tensor, for example with .float() or .to_dense()")
    held = value.detach().resolve_conj().resolve_neg().cpu().contiguous().reshape(-1)
    bits = held.view(torch.int16) if dtype == "bfloat16" else held
    return About(name, "tensor", dtype, tuple(value.shape)), _bytes_of(bits.numpy())


def _bytes_of(flat: Any) -> Any:
    import numpy

    return numpy.ascontiguousarray(flat).view(numpy.uint8)


def _value(about: About, data: Any) -> Any:
    import numpy

    if about.kind == "bytes":
        return data.tobytes()
    # NumPy has no bfloat16: an array of it comes as its bits.
    plain = "uint16" if about.dtype == "bfloat16" else about.dtype
    array = data.view(numpy.dtype(plain).newbyteorder("<")).reshape(about.shape)
    if about.kind == "tensor":
        import torch

        tensor = torch.from_numpy(array.copy())
        return tensor.view(torch.bfloat16) if about.dtype == "bfloat16" else tensor
    array.flags.writeable = False
    return array


# Smaller ones are not worth a compressor's start.
LEAST_BYTES = 1024


# Byte shuffle and deflate: numbers are split into planes of bytes, and each plane that shrinks is
# compressed.

# Looked at before anything is compressed: so many blocks of so many bytes.
SAMPLE_BLOCKS = 4
SAMPLE_BYTES = 16_384
# What shrinks by less than a tenth is kept as it is: reading it again would cost more than it saves.
WORTHWHILE = 0.9
# A byte of deflate makes at most 1032; a header that claims more lies.
MAX_EXPANSION = 1032
# The end of a deflate stream and its first block.
SLACK_BYTES = 1024
# zlib's default strategy, which has no name in Python.
REPEATS = 0


def split_planes(data: Any, width: int) -> list[Any]:
    """All first bytes of the numbers, then all second ones, and so on, from a flat array of bytes.

    Signs and exponents of neighbours are alike, so their planes shrink; the last bytes of a mantissa
    are noise and are left alone.
    """
    import numpy

    return list(numpy.ascontiguousarray(data.reshape(-1, width).T))


def join_planes(planes: list[Any]) -> Any:
    import numpy

    return numpy.stack(planes, axis=1).reshape(-1)


def choose_compression(data: Any, width: int) -> list[int | None] | None:
    """How to compress numbers: a strategy for each plane, None for one that is kept as it is.

    Tries a sample: the bytes as they lie (one strategy), and in planes. Numbers that repeat exactly
    shrink better as they lie; numbers that are alike shrink better in planes. None where nothing shrinks.
    """
    sample = _sample(data, width)
    way, size = _try_plane(sample)
    planes = [(way, size)] if width == 1 else [_try_plane(p) for p in split_planes(sample, width)]
    together = sum(size for _, size in planes)
    if min(together, size) >= WORTHWHILE * len(sample):
        return None
    return [way] if size < together else [way for way, _ in planes]


def _try_plane(plane: Any) -> tuple[int | None, int]:
    by_runs, by_repeats = len(_deflate(plane, zlib.Z_RLE)), len(_deflate(plane, REPEATS))
    size = min(by_runs, by_repeats)
    if size >= WORTHWHILE * len(plane):
        return None, len(plane)
    # Runs of equal bytes are found as well by a search that is several times as fast.
    return (REPEATS if by_repeats < WORTHWHILE * by_runs else zlib.Z_RLE), size


def compressed(plane: Any, strategy: int) -> bytes | None:
    """The compressed bytes; None where they would not be smaller."""
    out = _deflate(plane, strategy)
    return out if len(out) < len(plane) else None


def expanded(data: Any, length: int) -> bytes | None:
    """The plane again; None where the bytes do not make exactly so many."""
    if length > len(data) * MAX_EXPANSION + SLACK_BYTES:
        return None
    machine = zlib.decompressobj(-zlib.MAX_WBITS)
    try:
        out = machine.decompress(data, length + 1)
    except zlib.error:
        return None
    return out if len(out) == length and machine.eof else None


def _deflate(data: Any, strategy: int) -> bytes:
    machine = zlib.compressobj(1, zlib.DEFLATED, -zlib.MAX_WBITS, 8, strategy)
    return machine.compress(data) + machine.flush()


def _sample(data: Any, width: int) -> Any:
    import numpy

    if len(data) <= SAMPLE_BLOCKS * SAMPLE_BYTES:
        return data
    # Blocks begin where a number begins.
    apart = (len(data) - SAMPLE_BYTES) // (SAMPLE_BLOCKS - 1) // width * width
    blocks = [data[at * apart : at * apart + SAMPLE_BYTES] for at in range(SAMPLE_BLOCKS)]
    return numpy.concatenate(blocks)


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
