"""Files that `torch.load` reads: those of this trace, and those that a real GPU wrote.

Large files are mapped rather than read: of weights that go to the GPU only names, types and shapes are
looked at.
"""

from __future__ import annotations

import os
import zipfile
from typing import Any

import torch

from ..standins.patches import Patches
from .places import GPU, HOST, Places
from .saving import Overlay

# From this size on reading takes longer than mapping.
_LARGE = 16 << 20


def install(patches: Patches, overlay: Overlay, places: Places) -> None:
    load = torch.load

    def torch_load(f: Any, map_location: Any = None, *args: Any, **kwargs: Any) -> Any:
        if overlay.holds(f):
            on_host = map_location is not None and "cpu" in str(map_location)
            # Meta tensors have no other place to go to.
            with places.naming(HOST if on_host else GPU):
                return load(overlay.readable(f), None, *args, **kwargs)
        written_on: set[str] = set()

        def to_host(storage: Any, location: str) -> Any:
            written_on.add(location.partition(":")[0])
            return storage

        if _is_large(f) and not args:
            kwargs.setdefault("mmap", True)
        loaded = load(f, to_host, *args, **kwargs)
        wanted = written_on if map_location is None else _names(map_location)
        return _moved(loaded) if "cuda" in wanted else loaded

    patches.set(torch, "load", torch_load)


def _names(map_location: Any) -> set[str]:
    """The kinds of devices that tensors are mapped to."""
    if isinstance(map_location, dict):
        return {str(device).partition(":")[0] for device in map_location.values()}
    if callable(map_location):
        # Nearly always the storage itself, as it was read.
        return {"cpu"}
    return {str(torch.device(map_location)).partition(":")[0]}


def _is_large(f: Any) -> bool:
    if not isinstance(f, (str, os.PathLike)):
        return False
    try:
        return os.path.getsize(f) >= _LARGE and zipfile.is_zipfile(f)
    except OSError:
        return False


def _moved(value: Any) -> Any:
    """The same value with its tensors on the GPU; containers stay the objects they are."""
    if isinstance(value, torch.Tensor):
        return value.cuda()
    if isinstance(value, torch.nn.Module):
        return value.cuda()
    if isinstance(value, dict):
        for key in value:
            value[key] = _moved(value[key])
    elif isinstance(value, list):
        value[:] = map(_moved, value)
    elif type(value) is tuple:
        return tuple(map(_moved, value))
    return value
