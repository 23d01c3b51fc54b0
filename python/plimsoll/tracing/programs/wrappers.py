"""Wrappers of models that need several GPUs, processes or a compiler to do anything."""

from __future__ import annotations

import functools
from typing import Any

import torch

from ..standins.patches import Patches

COMPILED = "torch.compile was left out: kernels that it fuses keep less, so that the peak may be up to 40 % lower"


def install(patches: Patches, observer: Any) -> None:
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

    def is_compiled() -> None:
        observer.notes.add(COMPILED)
        observer.compiled = True

    def compiled(model: Any = None, **settings: Any) -> Any:
        if settings.get("disable"):
            return model
        if model is None:
            return compiled
        if isinstance(model, torch.nn.Module):
            is_compiled()
            return model

        # Libraries compile functions that a program may never call.
        @functools.wraps(model)
        def called(*args: Any, **kwargs: Any) -> Any:
            is_compiled()
            return model(*args, **kwargs)

        return called

    def compile_module(self: Any, *_: Any, **__: Any) -> None:
        is_compiled()

    patches.set(torch, "compile", compiled)
    patches.set(torch.nn.Module, "compile", compile_module)
