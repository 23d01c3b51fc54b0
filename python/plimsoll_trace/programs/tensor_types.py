"""`torch.cuda.FloatTensor` and its kin: types that older programs call to make tensors on the GPU.

PyTorch's own ask the driver. These make the same tensors through the calls that name a device.
"""

from __future__ import annotations

import numbers
from collections.abc import Callable
from typing import Any

import torch

from .. import small_values
from ..standins.patches import Patches

_NAMES = (
    "BFloat16Tensor",
    "BoolTensor",
    "ByteTensor",
    "CharTensor",
    "DoubleTensor",
    "FloatTensor",
    "HalfTensor",
    "IntTensor",
    "LongTensor",
    "ShortTensor",
)
_MODULE = "torch.cuda"
_HOST_TYPE = type(torch.FloatTensor)


class CudaTensorType(type):
    dtype: torch.dtype

    def __call__(cls, *content: Any, device: Any = "cuda") -> Any:
        first = content[0] if content else 0
        if isinstance(first, torch.Tensor):
            return first.to(device, cls.dtype)
        if isinstance(first, torch.Size):
            return torch.empty(first, dtype=cls.dtype, device=device)
        if isinstance(first, numbers.Integral):
            return torch.empty(content or (0,), dtype=cls.dtype, device=device)
        # Values are put together in host memory, and copied.
        return getattr(torch, cls.__name__)(*content).to(device)

    def __instancecheck__(cls, instance: Any) -> bool:
        tensor = isinstance(instance, torch.Tensor)
        return tensor and instance.is_cuda and instance.dtype == cls.dtype


def dtype_on_gpu(wanted: Any) -> Any:
    """The dtype that `Tensor.type` is asked for on the GPU, by a name or a type; else None."""
    if isinstance(wanted, CudaTensorType):
        return wanted.dtype
    module, _, name = wanted.rpartition(".") if isinstance(wanted, str) else ("", "", "")
    return getattr(torch, name).dtype if module == _MODULE and name in _NAMES else None


def dtype_on_host(wanted: Any) -> Any:
    """The same for host memory."""
    if isinstance(wanted, str):
        module, _, name = wanted.rpartition(".")
        return getattr(torch, name).dtype if module == "torch" and name in _NAMES else None
    return wanted.dtype if isinstance(wanted, _HOST_TYPE) and not wanted.is_cuda else None


def _calls_of_tensor(patches: Patches, on_gpu: Callable[[], bool]) -> None:
    """`torch.Tensor(2, 3)` makes a tensor of the default type, and a subclass one of its own class.

    PyTorch finds the first without asking where tensors are made, and fails on the second where ops are observed.
    """
    make = torch.Tensor.__new__

    def __new__(cls: Any, *content: Any, **named: Any) -> Any:
        if on_gpu() and not _is_tensor(content) and not named:
            made = getattr(torch.cuda, _name_of(torch.get_default_dtype()))(*content)
        else:
            made = make(torch.Tensor, *content, **named)
        return made if cls is torch.Tensor else _as_subclass(made, cls)

    patches.set(torch.Tensor, "__new__", __new__)


def _calls_with_numbers(patches: Patches, on_gpu: Callable[[], bool]) -> None:
    """`torch.normal(0.0, 1.0, size)` takes the default type, but not a default device, by which it is pretended."""
    draw = torch.normal

    def normal(mean: Any = 0.0, std: Any = 1.0, *args: Any, **named: Any) -> Any:
        tensors = isinstance(mean, torch.Tensor) or isinstance(std, torch.Tensor)
        if on_gpu() and not tensors and named.get("device") is None:
            named["device"] = "cuda"
        return draw(mean, std, *args, **named)

    patches.set(torch, "normal", normal)


def _as_subclass(tensor: Any, kind: type) -> Any:
    with torch._C.DisableTorchFunction():
        made = tensor.as_subclass(kind)
        small_values.hold_the_same(made, tensor)
        return made


def _is_tensor(content: tuple) -> bool:
    return bool(content) and isinstance(content[0], torch.Tensor)


def _name_of(dtype: torch.dtype) -> str:
    return next(name for name in _NAMES if getattr(torch, name).dtype == dtype)


def install(patches: Patches) -> None:
    for name in _NAMES:
        dtype = getattr(torch, name).dtype
        contents = {"dtype": dtype, "is_cuda": True, "__module__": _MODULE}
        patches.set(torch.cuda, name, CudaTensorType(name, (), contents))
    set_default = torch.set_default_tensor_type
    on_gpu = {"now": False}
    _calls_of_tensor(patches, lambda: on_gpu["now"])
    _calls_with_numbers(patches, lambda: on_gpu["now"])

    def set_default_tensor_type(kind: Any) -> None:
        dtype = dtype_on_gpu(kind)
        if dtype is None:
            if on_gpu["now"]:
                torch.set_default_device("cpu")
            on_gpu["now"] = False
            set_default(kind)
            return
        torch.set_default_dtype(dtype)
        torch.set_default_device("cuda")
        on_gpu["now"] = True

    patches.set(torch, "set_default_tensor_type", set_default_tensor_type)
