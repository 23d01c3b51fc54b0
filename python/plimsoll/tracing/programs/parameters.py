"""Parameters are meta tensors from the moment they are made, wherever the program builds its model.

A model of 7B that is built in host memory and then moved would take 28 GB of this machine.
"""

from __future__ import annotations

from typing import Any

import torch

from ..standins.patches import Patches
from . import values
from .places import HOST, Places


def install(patches: Patches, places: Places) -> None:
    make = torch.nn.Parameter.__new__

    def __new__(
        cls: Any, data: Any = None, requires_grad: bool = True, *args: Any, **kwargs: Any
    ) -> Any:
        if type(data) is torch.Tensor:
            data = on_meta(data, places)
        return make(cls, data, requires_grad, *args, **kwargs)

    patches.set(torch.nn.Parameter, "__new__", __new__)


def on_meta(data: Any, places: Places) -> Any:
    """The tensor itself, or its like without memory where it lies in host memory."""
    with torch._C.DisableTorchFunction():
        if data.device.type != "cpu" or data.layout != torch.strided:
            return data
    data = data.detach()
    with torch._C.DisableTorchFunction(), places.naming(HOST):
        like = torch.empty_strided(data.shape, data.stride(), dtype=data.dtype, device="meta")
    return values.copy_known_value(data, like)
