"""Activations that wait in the host's memory (`save_on_cpu`): packed and unpacked as on a GPU, without pinned pages.

Autograd calls the hooks outside the mode that pretends the devices, where a tensor of the GPU would be one of meta.
"""

from __future__ import annotations

from typing import Any

import torch
from torch.overrides import _get_current_function_mode_stack

from ..standins.patches import Patches
from .devices.pretended import PretendedDevices


def install(patches: Patches, devices: PretendedDevices) -> None:
    class save_on_cpu(torch.autograd.graph.saved_tensors_hooks):
        def __init__(self, pin_memory: bool = False, device_type: str = "cuda") -> None:
            super().__init__(pack, unpack)

    def pack(tensor: Any) -> Any:
        return _inside(devices, lambda: (tensor.device, tensor.cpu()))

    def unpack(packed: Any) -> Any:
        device, tensor = packed
        return _inside(devices, lambda: tensor.to(device))

    patches.set(torch.autograd.graph, "save_on_cpu", save_on_cpu)


def _inside(devices: PretendedDevices, call: Any) -> Any:
    if devices in _get_current_function_mode_stack():
        return call()
    with devices:
        return call()
