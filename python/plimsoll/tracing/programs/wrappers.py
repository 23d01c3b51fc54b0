"""Wrappers of models that need several GPUs, processes or a compiler to do anything."""

from __future__ import annotations

from typing import Any

import torch

from ..standins.patches import Patches

COMPILED = "torch.compile was left out: kernels that it fuses keep less, so that the peak may be up to 40 % lower"


def install(patches: Patches, observer: Any) -> None:
    # With one card it passes its inputs on.
    def forward(self: Any, *inputs: Any, **kwargs: Any) -> Any:
        return self.module(*inputs, **kwargs)

    patches.set(torch.nn.DataParallel, "forward", forward)
    prepare = torch.nn.DataParallel.__init__

    def __init__(
        self: Any, module: Any, device_ids: Any = None, output_device: Any = None, dim: int = 0
    ) -> None:
        torch.nn.Module.__init__(self)
        self.module, self.dim = module, dim
        self.device_ids, self.output_device = [0], 0

    del prepare
    patches.set(torch.nn.DataParallel, "__init__", __init__)

    def compiled(model: Any = None, **settings: Any) -> Any:
        if settings.get("disable"):
            return model
        observer.notes.add(COMPILED)
        observer.compiled = True
        return (lambda function: function) if model is None else model

    def compile_module(self: Any, *_: Any, **__: Any) -> None:
        compiled(self)

    patches.set(torch, "compile", compiled)
    patches.set(torch.nn.Module, "compile", compile_module)
