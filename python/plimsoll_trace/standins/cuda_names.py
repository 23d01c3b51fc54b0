"""CUDA by name in a user's code, where there is none: the meta device takes its place.

Tensors and modules sent to `cuda` go to `meta`; the plain questions about a GPU are answered as the
card estimated for would. What only a real GPU can do (streams, graphs, its random numbers' state)
still fails.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Callable

import torch
from torch.overrides import TorchFunctionMode

from ..gpu import H200, Gpu
from .patches import Patches


def _nothing() -> Callable[..., None]:
    """A function of its own for each name: torch refuses to load `_dynamo` where one object has two names."""
    return lambda *args, **kwargs: None


class _Properties:
    def __init__(self, gpu: Gpu):
        self.name = gpu.name
        self.major, self.minor = divmod(gpu.capability, 10)
        self.total_memory = gpu.memory
        self.multi_processor_count = gpu.multiprocessors


def _card(gpu: Gpu) -> dict[str, Callable]:
    return {
        "get_device_name": lambda device=None: gpu.name,
        "get_device_capability": lambda device=None: divmod(gpu.capability, 10),
        "get_device_properties": lambda device=None: _Properties(gpu),
        "mem_get_info": lambda device=None: (gpu.memory, gpu.memory),
    }


_ANSWERS = {
    "is_available": lambda: True,
    "is_initialized": lambda: True,
    "device_count": lambda: 1,
    "current_device": lambda: 0,
    **{
        name: lambda device=None: 0
        for name in (
            "memory_allocated",
            "max_memory_allocated",
            "memory_reserved",
            "max_memory_reserved",
        )
    },
    **{
        name: _nothing()
        for name in (
            "set_device",
            "synchronize",
            "empty_cache",
            "manual_seed",
            "manual_seed_all",
            "reset_peak_memory_stats",
            "init",
        )
    },
}


@contextmanager
def on_meta(gpu: Gpu = H200) -> Iterator[None]:
    """While entered, code that names CUDA gets the meta device."""
    patches = Patches()
    future = torch.__future__
    swapped = future.get_swap_module_params_on_conversion()
    try:
        # A module that is moved from the CPU to CUDA keeps its parameters, tied ones too; to meta only so.
        future.set_swap_module_params_on_conversion(True)
        for name, answer in {**_ANSWERS, **_card(gpu)}.items():
            if hasattr(torch.cuda, name):
                patches.set(torch.cuda, name, answer)
        with _Renamed():
            yield
    finally:
        patches.undo()
        future.set_swap_module_params_on_conversion(swapped)


class _Renamed(TorchFunctionMode):
    def __torch_function__(self, func, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        if func is torch.Tensor.cuda:
            return args[0].to("meta")
        if func is torch.Tensor.pin_memory:
            return args[0]
        if "device" in kwargs and _is_cuda(kwargs["device"]):
            kwargs = {**kwargs, "device": "meta"}
        if func is torch.Tensor.to and len(args) > 1 and _is_cuda(args[1]):
            args = (args[0], "meta", *args[2:])
        return func(*args, **kwargs)


def _is_cuda(device: Any) -> bool:
    if isinstance(device, str):
        return device.split(":")[0] == "cuda"
    if isinstance(device, torch.device):
        return device.type == "cuda"
    # A bare number means a GPU.
    return isinstance(device, int) and not isinstance(device, bool)
