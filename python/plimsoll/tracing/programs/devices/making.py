"""Calls that make tensors on a named device, or out of the numbers of a program."""

from __future__ import annotations

import weakref
from numbers import Integral
from typing import Any

import torch

from .. import values
from ..places import GPU, HOST, META, REAL, is_cuda, is_named
from . import host_ops
from .moves import Moves

# PyTorch's own: they are replaced while a trace runs.
MAKE, AS_TENSOR = torch.tensor, torch.as_tensor
_PYTHON = frozenset((int, float, bool))
# What says which values are taken, instead of where they stand.
_MASKS = (torch.bool, torch.uint8)
# A list this long is never one of dimensions.
_LONGEST_INDEX = 32
# What is made like a tensor of the host that has no memory gets none either.
_LIKE = {torch.empty_like, torch.zeros_like, torch.ones_like, torch.full_like}


class Making:
    def __init__(self, moves: Moves):
        self._moves = moves
        self._places = moves.places
        self._observer = moves.observer
        # Storages that a program pinned, and the references that say when they end.
        self._pinned: dict[int, Any] = {}

    def made(self, func, args, kwargs):
        # Pages of the host are not counted, and cannot be pinned without a driver.
        if kwargs.get("pin_memory"):
            return self.pinned(self.made(func, args, {**kwargs, "pin_memory": False}))
        device = kwargs.get("device")
        if device is None:
            return func(*args, **kwargs)
        return self._on_device(func, args, kwargs, device)

    def pinned(self, tensor):
        """The tensor itself; it is said to be pinned from now on."""
        storage = tensor.untyped_storage()
        key = storage._cdata
        self._pinned[key] = weakref.ref(storage, lambda _: self._pinned.pop(key, None))
        return tensor

    def pin_memory(self, func, args, kwargs):
        return self.pinned(args[0])

    def is_pinned(self, func, args, kwargs):
        return bool(self._pinned) and args[0].untyped_storage()._cdata in self._pinned

    def _on_device(self, func, args, kwargs, device):
        if is_cuda(device):
            self._moves.notice(device)
            with self._places.naming(GPU):
                return func(*args, **{**kwargs, "device": "meta"})
        if is_named(device, "meta") and self._places.named is None:
            with self._places.naming(META):
                return func(*args, **kwargs)
        on_host = func in _LIKE and args and is_named(device, "cpu")
        if on_host and self._places.where(args[0]) == HOST:
            with self._places.naming(HOST):
                return func(*args, **{**kwargs, "device": "meta"})
        return func(*args, **kwargs)

    def tensor(self, func, args, kwargs):
        if args and (held := self._moves.arrays.tensor_of(args[0])) is not None:
            return self._like_array(held, kwargs.get("dtype"), kwargs.get("device"))
        listed = bool(args) and type(args[0]) in (list, tuple)
        made = self.made(func, (self._numbers(args[0]), *args[1:]) if listed else args, kwargs)
        return self._counted(made)

    def _like_array(self, held, dtype, device):
        named = {} if dtype is None else {"dtype": dtype}
        if device is not None and is_cuda(device):
            return self._moves.to_gpu(held, named)
        return held.to(**named)

    def new_tensor(self, func, args, kwargs):
        return self._counted(self.made(func, args, kwargs))

    def as_tensor(self, func, args, kwargs):
        """Numbers of the program are made in host memory, where they are known."""
        data, device = args[0] if args else kwargs.get("data"), kwargs.get("device")
        if isinstance(data, torch.Tensor) or device is None or not is_cuda(device):
            return self.tensor(func, args, kwargs)
        self._moves.notice(device)
        return self._moves.to_gpu(self.tensor(func, args, {**kwargs, "device": "cpu"}), {})

    def _counted(self, tensor):
        """PyTorch puts numbers into memory, and copies them, where no mode sees it."""
        wrapped = torch._C._functorch.is_functorch_wrapped_tensor
        plain = type(tensor) is torch.Tensor and not wrapped(tensor)
        if plain and self._observer.recording and self._places.where(tensor) == GPU:
            self._observer.adopt(tensor.untyped_storage(), "aten.tensor")
        return tensor

    def _numbers(self, value):
        """Tensors on the GPU that stand in a list are read, one by one."""
        if type(value) in (list, tuple):
            # A row of numbers is as it is: programs make texts of such rows.
            plain = _PYTHON.issuperset(map(type, value))
            return value if plain else [self._numbers(one) for one in value]
        if isinstance(value, torch.Tensor) and self._places.where(value) == GPU:
            return values.plausible(value, self._observer).tolist()
        return value

    def part(self, func, args, kwargs):
        if host_ops.is_part(*args) and self._observer.passes_by():
            return host_ops.run(func, args, kwargs)
        return self.item(func, args, kwargs)

    def item(self, func, args, kwargs):
        """Places in a list come from host memory: PyTorch would make a meta tensor of them, without values."""
        tensor, index, *value = args
        if _names_places(index) and (place := self._places.where(tensor)) != REAL:
            index = self._with_tensors(index, place)
        return func(tensor, index, *value)

    def _with_tensors(self, index: Any, place: str) -> Any:
        if not _is_for_dimensions(index):
            return self._tensor_of(index, place)
        parts = (self._tensor_of(one, place) if _is_numbers(one) else one for one in index)
        return type(index)(parts)

    def _tensor_of(self, numbers: Any, place: str) -> Any:
        made = MAKE(numbers, device="cpu")
        made = made if made.dtype in _MASKS else made.long()
        return self._moves.to_gpu(made, {}) if place == GPU else made


def _names_places(index: Any) -> bool:
    """Whether an index has places, or a mask, as numbers of the program: alone, or for some dimensions."""
    return any(map(_is_numbers, index)) if _is_for_dimensions(index) else _is_numbers(index)


def _is_for_dimensions(index: Any) -> bool:
    """Whether PyTorch takes what stands in it for one dimension each, and not all of it for the first."""
    if isinstance(index, list) and len(index) < _LONGEST_INDEX:
        return not all(isinstance(one, Integral) for one in index)
    return isinstance(index, tuple)


def _is_numbers(value: Any) -> bool:
    """Whether it is an array of numpy, or a sequence, that PyTorch would make a tensor of."""
    if hasattr(value, "__array_interface__"):
        return value.ndim > 0 and value.dtype.kind in "iub"
    if not isinstance(value, (list, tuple, range)) or not value:
        return False
    return all(isinstance(one, Integral) or _is_numbers(one) for one in value)
