"""Weights in safetensors files: a header says all that a trace needs, so nothing else is read or written.

What a program saves is written to the trace's own folder as a header in front of a hole, so that it can
be loaded again. A 7B model loads in a second this way, and takes no memory.
"""

from __future__ import annotations

import json
import os
from typing import Any

import torch

from plimsoll.failure import Failure

from ..standins.imports import when_imported
from ..standins.patches import Patches
from .files.overlay import Overlay
from .places import GPU, HOST, Places, is_cuda
from .watch import SAVING, Watch

# The largest header that safetensors itself accepts.
_LARGEST_HEADER = 100_000_000
_NAMES = {
    "BOOL": torch.bool,
    "U8": torch.uint8,
    "I8": torch.int8,
    "I16": torch.int16,
    "I32": torch.int32,
    "I64": torch.int64,
    "F16": torch.float16,
    "BF16": torch.bfloat16,
    "F32": torch.float32,
    "F64": torch.float64,
    "F8_E4M3": torch.float8_e4m3fn,
    "F8_E5M2": torch.float8_e5m2,
    "C64": torch.complex64,
}
_OF_TYPE = {dtype: name for name, dtype in _NAMES.items()}


def install(patches: Patches, places: Places, overlay: Overlay, watch: Watch) -> None:
    # Its threads would not see the pretended GPU.
    os.environ["HF_DEACTIVATE_ASYNC_LOAD"] = "1"
    when_imported("safetensors", lambda module: _reading(patches, places, overlay, watch, module))
    when_imported("safetensors.torch", lambda module: _writing(patches, overlay, watch, module))


def _reading(patches: Patches, places: Places, overlay: Overlay, watch: Watch, module: Any) -> None:
    real = module.safe_open

    def safe_open(filename: Any, framework: str, device: Any = "cpu", **options: Any) -> Any:
        path = overlay.readable(filename)
        watch.loads_weights = True
        if framework not in ("pt", "torch", "pytorch"):
            return real(path, framework, device, **options)
        return HeaderFile(path, "cpu" if device is None else device, places)

    patches.set(module, "safe_open", safe_open)


def _writing(patches: Patches, overlay: Overlay, watch: Watch, module: Any) -> None:
    def save_file(tensors: Any, filename: Any, metadata: Any = None, **_: Any) -> None:
        with watch.within(SAVING):
            write_header(overlay.writable(filename), tensors, metadata)

    def save_model(model: Any, filename: Any, metadata: Any = None, **_: Any) -> None:
        save_file(model.state_dict(), filename, metadata)

    patches.set(module, "save_file", save_file)
    patches.set(module, "save_model", save_model)


def write_header(path: Any, tensors: Any, metadata: Any = None) -> None:
    """A file that holds names, types and shapes, and a hole where the values would be."""
    header: dict[str, Any] = {"__metadata__": {"format": "pt", **(metadata or {})}}
    end = 0
    for name, tensor in tensors.items():
        start, end = end, end + tensor.numel() * tensor.element_size()
        header[name] = {
            "dtype": _OF_TYPE[tensor.dtype],
            "shape": list(tensor.shape),
            "data_offsets": [start, end],
        }
    text = json.dumps(header).encode()
    with open(path, "wb") as file:
        file.write(len(text).to_bytes(8, "little") + text)
        file.truncate(8 + len(text) + end)


def read_header(path: Any) -> dict[str, Any]:
    with open(path, "rb") as file:
        length = int.from_bytes(file.read(8), "little")
        if length > _LARGEST_HEADER:
            raise _broken(path)
        try:
            header = json.loads(file.read(length))
        except ValueError as error:
            raise _broken(path) from error
    if not isinstance(header, dict):
        raise _broken(path)
    return header


def _broken(path: Any) -> Failure:
    return Failure(
        "bad-safetensors",
        f"{path} has no header that can be read",
        "download the file again",
    )


class HeaderFile:
    """In place of `safe_open`: the same questions, answered from the header."""

    def __init__(self, path: Any, device: Any, places: Places) -> None:
        header = read_header(path)
        self._path = path
        self._metadata = header.pop("__metadata__", None)
        self._entries = header
        self._device = device
        self._places = places

    def __enter__(self) -> HeaderFile:
        return self

    def __exit__(self, *_: Any) -> None:
        return None

    def keys(self) -> list[str]:
        return list(self._entries)

    offset_keys = keys

    def metadata(self) -> Any:
        return self._metadata

    def get_slice(self, name: str) -> Slice:
        entry = self._entries[name]
        try:
            dtype, shape = entry["dtype"], [int(size) for size in entry["shape"]]
            kind = _NAMES[dtype]
        except (KeyError, TypeError, ValueError) as error:
            raise _broken(self._path) from error
        return Slice(dtype, kind, shape, self._device, self._places)

    def get_tensor(self, name: str) -> Any:
        return self.get_slice(name)[...]

    def get_tensors(self) -> dict[str, Any]:
        return {name: self.get_tensor(name) for name in self._entries}


class Slice:
    def __init__(self, name: str, dtype: Any, shape: list[int], device: Any, places: Places):
        self._name, self._dtype, self._shape = name, dtype, shape
        self._device, self._places = device, places

    def get_dtype(self) -> str:
        return self._name

    def get_shape(self) -> list[int]:
        return self._shape

    def __getitem__(self, index: Any) -> Any:
        place = GPU if is_cuda(self._device) else HOST
        with torch._C.DisableTorchFunction(), self._places.naming(HOST):
            whole = torch.empty(self._shape, dtype=self._dtype, device="meta")
            self._places.remember(whole.untyped_storage(), HOST)
        part = whole if index is Ellipsis else whole[index].contiguous()
        return part.to("cuda") if place == GPU else part
