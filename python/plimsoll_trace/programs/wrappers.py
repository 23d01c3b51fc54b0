"""Wrappers of models that need several GPUs to do anything."""

from __future__ import annotations

from typing import Any

import torch

from ..standins.patches import Patches


def install(patches: Patches) -> None:
    # With one card it passes its inputs on.
    def forward(self: Any, *inputs: Any, **kwargs: Any) -> Any:
        return self.module(*inputs, **kwargs)

    patches.set(torch.nn.DataParallel, "forward", forward)

    def __init__(
        self: Any, module: Any, device_ids: Any = None, output_device: Any = None, dim: int = 0
    ) -> None:
        torch.nn.Module.__init__(self)
        self.module, self.dim = module, dim
        self.device_ids, self.output_device = [0], 0

    patches.set(torch.nn.DataParallel, "__init__", __init__)

    def data_parallel(
        module: Any, inputs: Any, *_: Any, module_kwargs: Any = None, **__: Any
    ) -> Any:
        given = inputs if isinstance(inputs, tuple) else () if inputs is None else (inputs,)
        return module(*given, **(module_kwargs or {}))

    patches.set(torch.nn.parallel, "data_parallel", data_parallel)
