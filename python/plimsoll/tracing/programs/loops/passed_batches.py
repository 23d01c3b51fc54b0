"""Batches that another process read, passed on through memory that both see.

Tensors lie in that memory and are not copied again: most are moved to the GPU, where they have no values.
"""

from __future__ import annotations

import io
import mmap
import os
import pickle
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch.utils._python_dispatch import _disable_current_modes

# Where each tensor begins: at a multiple of this.
_ALIGNED = 64
# A part of a tensor that is spread over more than so many times its own size is not passed on.
_LARGEST_SPREAD = 4
# Smaller ones are copied: what a program keeps of a batch would hold all of its memory.
_SMALL = 1 << 20


class NotPassedOn(Exception):
    """Not all of it can be given to another process just as it is."""


def pack(value: Any) -> tuple[bytes, int]:
    """What to send, and the file that its tensors lie in."""
    with _unseen():
        words = io.BytesIO()
        packer = _Packer(words)
        packer.dump(value)
        file = os.memfd_create("batch")
        os.ftruncate(file, packer.size)
        memory = mmap.mmap(file, packer.size)
        for tensor, place, extent in packer.tensors:
            if extent:
                flat = torch.frombuffer(memory, dtype=tensor.dtype, count=extent, offset=place)
                flat.copy_(torch.as_strided(tensor, (extent,), (1,)))
        return words.getvalue(), file


def unpack(words: bytes, file: int) -> Any:
    with _unseen():
        memory = mmap.mmap(file, 0)
        return _Unpacker(io.BytesIO(words), memory).load()


@contextmanager
def _unseen() -> Iterator[None]:
    """None of this is the program's own work."""
    with _disable_current_modes(), torch._C.DisableTorchFunction(), torch.no_grad():
        yield


class _Packer(pickle.Pickler):
    def __init__(self, words: io.BytesIO) -> None:
        super().__init__(words, pickle.HIGHEST_PROTOCOL)
        self.size = _ALIGNED
        self.tensors: list[tuple[Any, int, int]] = []
        # By the `id` of a tensor, all of which are held.
        self._places: dict[int, tuple[int, int]] = {}

    def persistent_id(self, value: Any) -> Any:
        if isinstance(value, (torch.UntypedStorage, torch.TypedStorage, torch.nn.Module)):
            raise NotPassedOn
        if not isinstance(value, torch.Tensor):
            return None
        if id(value) not in self._places:
            self._add(value)
        place, extent = self._places[id(value)]
        return place, extent, tuple(value.shape), value.stride(), value.dtype

    def _add(self, tensor: torch.Tensor) -> None:
        if type(tensor) is not torch.Tensor or not tensor.is_cpu or vars(tensor):
            raise NotPassedOn
        if tensor.layout is not torch.strided or tensor.is_quantized or tensor.requires_grad:
            raise NotPassedOn
        if tensor.is_conj() or tensor.is_neg():
            raise NotPassedOn
        last = sum((size - 1) * step for size, step in zip(tensor.shape, tensor.stride()))
        extent = last + 1 if tensor.numel() else 0
        if extent > max(_ALIGNED, _LARGEST_SPREAD * tensor.numel()):
            raise NotPassedOn
        place = self.size
        self._places[id(tensor)] = (place, extent)
        self.tensors.append((tensor, place, extent))
        # Each has a place of its own, also one without numbers.
        room = max(1, extent * tensor.element_size())
        self.size = place + -(-room // _ALIGNED) * _ALIGNED


class _Unpacker(pickle.Unpickler):
    def __init__(self, words: io.BytesIO, memory: mmap.mmap) -> None:
        super().__init__(words)
        self._memory = memory
        self._made: dict[int, torch.Tensor] = {}

    def persistent_load(self, form: Any) -> torch.Tensor:
        place, extent, shape, stride, dtype = form
        if place not in self._made:
            self._made[place] = self._tensor(place, extent, shape, stride, dtype)
        return self._made[place]

    def _tensor(self, place: int, extent: int, shape: Any, stride: Any, dtype: Any) -> Any:
        if not extent:
            return torch.empty_strided(shape, stride, dtype=dtype)
        flat = torch.frombuffer(self._memory, dtype=dtype, count=extent, offset=place)
        if flat.numel() * flat.element_size() <= _SMALL:
            flat = flat.clone()
        # No view of another: a program may ask.
        return torch.empty(0, dtype=dtype).set_(flat.untyped_storage(), 0, shape, stride)
