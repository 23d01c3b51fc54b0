"""Ways of a tensor between host and GPU. Between two meta tensors PyTorch would copy nothing."""

from __future__ import annotations

import ctypes
import math
import weakref
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch.utils._python_dispatch import _disable_current_modes

from ... import small_values
from .. import values
from ..parameters import send_lazy
from ..places import GPU, HOST, META, REAL, Places, device_named, is_cuda, is_named
from ..tensor_types import dtype_on_gpu, dtype_on_host

# Host memory that was freed is kept for the next values, where the C library is glibc, until much is needed at once.
#
# Values of boxes are computed in arrays of many megabytes, one after another. If each went back to the system, the
# next would come as new pages, which takes as long as computing with them.

# Numbers of settings in glibc's malloc.h.
_TRIM_THRESHOLD, _TOP_PAD, _MMAP_THRESHOLD = -1, -2, -3
# The largest array that glibc takes from its heap.
_FROM_HEAP = 32 << 20
# Free memory at the end of the heap that is kept, and what is taken at a time.
_KEPT = 256 << 20
_AT_A_TIME = 8 << 20


def keep_freed_memory() -> None:
    """Sets glibc's allocator so, for as long as the process lives; other C libraries stay as they are."""
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (AttributeError, OSError, TypeError):
        return
    mallopt(_MMAP_THRESHOLD, _FROM_HEAP)
    mallopt(_TRIM_THRESHOLD, _KEPT)
    mallopt(_TOP_PAD, _AT_A_TIME)


def give_freed_memory_back() -> None:
    """For who is about to take much at once, which does not come from what was kept."""
    try:
        ctypes.CDLL(None).malloc_trim(0)
    except (AttributeError, OSError, TypeError):
        return


# Called by its methods: a program's own kind of tensor may have others of these names.
_TENSOR = torch.Tensor
# Copies to the host with more values than this get no memory: they stay on meta, as the host's.
_MAX_VALUES = 1 << 20
_SEVERAL = (
    "the program uses several cards in one process; what lies on each of them is counted as on one"
)


# Values that get memory.
_LEAST_VALUES = 1 << 20
# Of so many, each array that a program computes takes 64 MiB or more.
_MANY_VALUES = 1 << 24


class Arrays:
    """Large arrays of numpy that a program makes of what came from the GPU.

    The outputs of a whole evaluation take gigabytes, and their values are made up anyway: so the last dimensions
    get values, and the first ones repeat them without memory. What a program makes a tensor of again is without
    memory, too.
    """

    def __init__(self, places: Places, observer: Any):
        self._places = places
        self._observer = observer
        # Of those that repeat their values: where these lie, as long as they do.
        self._repeating: dict[int, Any] = {}

    def of(self, tensor: Any) -> Any:
        """The array of a tensor of the host's that has no memory."""
        shape = tuple(tensor.shape)
        if math.prod(shape) >= _MANY_VALUES:
            give_freed_memory_back()
        first = _repeats(shape)
        if math.prod(shape[:first]) == 1 or small_values.is_known(tensor):
            return values.plausible(tensor, self._observer).numpy()
        held = values.plausible(tensor, self._observer, shape=shape[first:]).numpy()
        from numpy.lib.stride_tricks import as_strided

        key = _address(held)
        self._repeating[key] = weakref.ref(held, lambda _: self._repeating.pop(key, None))
        return as_strided(held, shape, (*(0 for _ in shape[:first]), *held.strides))

    def tensor_of(self, array: Any) -> Any | None:
        """Without memory, if the array is one of these; else None."""
        if not self._repeating or getattr(array, "size", 0) <= _LEAST_VALUES:
            return None
        if not hasattr(array, "__array_interface__") or _address(array) not in self._repeating:
            return None
        dtype = torch.from_numpy(array[(slice(0, 1),) * array.ndim]).dtype
        with self._places.naming(HOST):
            return torch.empty(array.shape, dtype=dtype, device="meta")


def _repeats(shape: tuple[int, ...]) -> int:
    """How many of the first dimensions need no values of their own."""
    first, held = len(shape), 1
    while first > 0 and held < _LEAST_VALUES:
        first -= 1
        held *= shape[first]
    return first


def _address(array: Any) -> int:
    return array.__array_interface__["data"][0]


class Moves:
    def __init__(self, places: Places, observer: Any):
        self.places = places
        self.observer = observer
        self.arrays = Arrays(places, observer)
        self._modules = 0

    @contextmanager
    def of_module(self) -> Iterator[None]:
        """While a module moves: a parameter, its gradient and buffers stay of one kind."""
        self._modules += 1
        try:
            yield
        finally:
            self._modules -= 1

    def notice(self, device: Any) -> None:
        """Counts what goes to another card with the first one's, and says so."""
        number = device if isinstance(device, int) else torch.device(device).index
        if number and number != self.places.current:
            self.observer.notes.add(_SEVERAL)

    def to(self, func, args, kwargs):
        tensor = args[0]
        device, named = device_named(args, kwargs)
        if isinstance(device, torch.Tensor):
            place = self.places.where(device)
            named.setdefault("dtype", device.dtype)
            device = {GPU: "cuda", HOST: "cpu", META: "meta"}.get(place, device.device)
        if device is None:
            return func(*args, **kwargs)
        if is_cuda(device):
            self.notice(device)
            return self.to_gpu(tensor, named)
        if is_named(device, "cpu"):
            return self.to_host(tensor, named)
        if not is_named(device, "meta"):
            return func(tensor, device, **named)
        on_meta = self.places.where(tensor) in (GPU, HOST)
        with self.places.naming(META):
            return torch.empty_like(tensor, **named) if on_meta else func(tensor, device, **named)

    def type_as(self, func, args, kwargs):
        other = args[1] if len(args) > 1 else kwargs["other"]
        return self.to(_TENSOR.to, (args[0], other), {})

    def cuda(self, func, args, kwargs):
        return self.to_gpu(args[0], {})

    def cpu(self, func, args, kwargs):
        return self.to_host(args[0], {})

    def to_gpu(self, tensor, named):
        if send_lazy(tensor, "cuda"):
            return tensor
        place = self.places.where(tensor)
        if place == GPU:
            return _TENSOR.to(tensor, **named) if named else tensor
        if place == META:
            raise NotImplementedError("Cannot copy out of meta tensor; no data!")
        with self.places.naming(GPU):
            if place == HOST:
                return values.copy_known_value(tensor, _copied(tensor, named))
            return values.copy_known_value(tensor, _TENSOR.to(tensor, "meta", **named))

    def to_host(self, tensor, named):
        if send_lazy(tensor, "cpu"):
            return tensor
        place = self.places.where(tensor)
        if place == REAL:
            return _TENSOR.to(tensor, "cpu", **named)
        if place == HOST:
            return _TENSOR.to(tensor, **named) if named else tensor
        keeps = self._modules or isinstance(tensor, torch.nn.Parameter)
        if tensor.numel() <= _MAX_VALUES and not keeps:
            return _TENSOR.to(tensor, "cpu", **named)
        with self.places.naming(HOST):
            return values.copy_known_value(tensor, _copied(tensor, named))

    def set_data(self, func, args, kwargs):
        """Real values of the host and tensors without memory are of two kinds, which PyTorch keeps apart."""
        tensor, value = args
        with torch._C.DisableTorchFunction():
            if tensor.device.type == value.device.type:
                func(*args, **kwargs)
                return small_values.hold_the_same(tensor, value)
            if isinstance(tensor, torch.nn.Parameter) and tensor.is_meta:
                with self.places.naming(HOST):
                    held = values.copy_known_value(value, value.detach().to("meta"))
                func(tensor, held, **kwargs)
                return small_values.hold_the_same(tensor, held)
            learns = tensor.requires_grad and tensor.is_leaf
            # Seen by no one: what is followed cannot be swapped. Its class and attributes stay.
            with _disable_current_modes():
                torch._C._swap_tensor_impl(tensor, value.detach())
            small_values.hold_the_same(tensor, value)
            if learns:
                tensor.requires_grad_()
        return None

    def set_grad(self, func, args, kwargs):
        """A gradient that was copied to the host has values, a parameter has none: PyTorch keeps both kinds apart."""
        tensor, value = args
        with torch._C.DisableTorchFunction():
            mixed = value is not None and tensor.is_meta != value.is_meta
        if mixed and self.places.where(tensor) in (HOST, REAL):
            value = self._of_kind(tensor, value)
        return func(tensor, value, **kwargs)

    def _of_kind(self, tensor, value):
        with torch._C.DisableTorchFunction():
            if value.is_meta:
                return values.plausible(value, self.observer)
            with self.places.naming(HOST):
                return values.copy_known_value(value, value.detach().to("meta"))

    def numpy(self, func, args, kwargs):
        place = self.places.where(args[0])
        if place == HOST:
            return self.arrays.of(args[0])
        if place == GPU and (kwargs.get("force") or args[1:2] == (True,)):
            return self.numpy(func, (self.to_host(args[0].detach(), {}),), {})
        if place == GPU:
            raise TypeError(
                "can't convert cuda:0 device type tensor to numpy. Use Tensor.cpu() to copy the "
                "tensor to host memory first."
            )
        return func(*args, **kwargs)

    def type(self, func, args, kwargs):
        wanted = args[1] if len(args) > 1 else kwargs.get("dtype")
        if (dtype := dtype_on_gpu(wanted)) is not None:
            return self.to_gpu(args[0], {"dtype": dtype})
        if (dtype := dtype_on_host(wanted)) is not None:
            return self.to_host(args[0], {"dtype": dtype})
        place = self.places.where(args[0])
        if wanted is None and place in (GPU, HOST):
            part = "cuda." if place == GPU else ""
            with torch._C.DisableTorchFunction():
                return torch.empty(0, dtype=args[0].dtype).type().replace("torch.", "torch." + part)
        return func(*args, **kwargs)


def _copied(tensor: Any, named: dict[str, Any]) -> Any:
    """In one copy, whatever else changes with it."""
    if named.get("dtype", tensor.dtype) == tensor.dtype:
        layout = named.get("memory_format", torch.preserve_format)
        return _TENSOR.clone(tensor, memory_format=layout)
    return _TENSOR.to(tensor, **named)
