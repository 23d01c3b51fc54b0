"""What a store keeps: bytes, NumPy arrays, tensors and dicts of them, as parts with their meaning."""

from __future__ import annotations

import math
import sys
from dataclasses import dataclass
from typing import Any

from ..arguments import BadType, BadValue, shown

# Numbers that an array may hold, with the bytes of one.
ITEM_BYTES = {
    "bool": 1, "int8": 1, "uint8": 1, "int16": 2, "uint16": 2, "float16": 2, "bfloat16": 2,
    "int32": 4, "uint32": 4, "float32": 4, "int64": 8, "uint64": 8, "float64": 8,
}  # fmt: skip


@dataclass(frozen=True)
class About:
    """What the bytes of a part mean. The name is "" for a value that is one part."""

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
    """What was put, from flat arrays of bytes. Arrays are read-only: they may lie in a mapped file."""
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
