"""Tensors that go to another library, or come from one, without being copied: DLPack."""

from __future__ import annotations

from typing import Any

import torch

from ...standins.patches import Patches
from ..places import GPU, REAL

# What DLPack calls the devices.
_CPU, _CUDA = 1, 2


class Shared:
    """In place of the capsule with the address of a tensor: the tensor, which has none."""

    def __init__(self, tensor: Any) -> None:
        self.tensor = tensor


def capsule(devices: Any, func: Any, args: Any, kwargs: Any) -> Any:
    tensor = args[0]
    place = devices.places.where(tensor)
    if place == REAL:
        return func(*args, **kwargs)
    if place == GPU:
        return Shared(tensor)
    return torch.from_numpy(devices.moves.arrays.of(tensor)).__dlpack__()


def device(devices: Any, func: Any, args: Any, kwargs: Any) -> Any:
    place = devices.places.where(args[0])
    if place == REAL:
        return func(*args, **kwargs)
    return (_CUDA, devices.places.current) if place == GPU else (_CPU, 0)


def install(patches: Patches, devices: Any) -> None:
    read, write = torch.from_dlpack, torch.utils.dlpack.to_dlpack

    def from_dlpack(given: Any, *args: Any, **kwargs: Any) -> Any:
        if isinstance(given, torch.Tensor) and devices.places.where(given) != REAL:
            return given.detach()
        held = given
        if not isinstance(given, torch.Tensor) and _is_of_gpu(given):
            held = given.__dlpack__()
        return held.tensor.detach() if isinstance(held, Shared) else read(held, *args, **kwargs)

    def to_dlpack(tensor: Any) -> Any:
        return write(tensor) if devices.places.where(tensor) == REAL else tensor.__dlpack__()

    for module in (torch, torch.utils.dlpack):
        patches.set(module, "from_dlpack", from_dlpack)
    patches.set(torch.utils.dlpack, "to_dlpack", to_dlpack)


def _is_of_gpu(given: Any) -> bool:
    asked = getattr(given, "__dlpack_device__", None)
    return asked is not None and asked()[0] == _CUDA
