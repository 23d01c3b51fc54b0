"""Kernels that a program, or a library of its, wrote in Triton.

They work in tensors that were made before, so that starting one asks the allocator for nothing. Only
trying out configurations does: it clears the card's cache with a tensor of its own.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any, Callable

import torch

from ... import small_values
from ...gpu import Gpu, cudnn_properties
from ...standins.imports import when_imported
from ...standins.patches import Patches

# What `do_bench` of Triton clears between two calls, so that nothing is left in the card's cache.
_CLEARED = 256 << 20
_MILLISECONDS = 1.0


def install(patches: Patches, observer: Any) -> None:
    gpu = observer.gpu

    def run(self: Any, *args: Any, grid: Any, warmup: bool, **kwargs: Any) -> None:
        for hook in self.pre_run_hooks:
            hook(*args, **kwargs)
        for value in (*args, *kwargs.values()):
            if isinstance(value, torch.Tensor):
                observer.scalars.forget(value.untyped_storage()._cdata)
                small_values.may_be_written(value)

    when_imported("triton.runtime.jit", lambda m: patches.set(m.JITFunction, "run", run))
    when_imported("triton.runtime.driver", lambda m: patches.set(m.driver, "_active", Driver(gpu)))
    when_imported("triton.testing", lambda m: patches.set(m, "do_bench", _tried))


def _tried(call: Callable[[], Any], *_: Any, quantiles: Any = None, **options: Any) -> Any:
    """The memory of a trial; how long it takes is not known, so that the first is as good as any."""
    call()
    cleared = torch.empty(_CLEARED // 4, dtype=torch.int, device="cuda")
    cleared.zero_()
    call()
    if quantiles is not None:
        return [_MILLISECONDS] * len(quantiles) if len(quantiles) > 1 else _MILLISECONDS
    return [_MILLISECONDS] if options.get("return_mode") == "all" else _MILLISECONDS


class Driver:
    """The questions that Triton, and programs, put to the card's driver."""

    def __init__(self, gpu: Gpu) -> None:
        self._gpu = gpu
        self.utils = self

    def get_current_target(self) -> Any:
        compiler = import_module("triton.backends.compiler")
        return compiler.GPUTarget("cuda", self._gpu.capability, 32)

    def get_current_device(self) -> int:
        return 0

    def get_current_stream(self, device: Any = None) -> int:
        return 0

    def get_device_capability(self, device: Any = None) -> tuple[int, int]:
        return divmod(self._gpu.capability, 10)

    def get_active_torch_device(self) -> Any:
        return torch.device("cuda", 0)

    def get_device_interface(self) -> Any:
        return torch.cuda

    def get_benchmarker(self) -> Callable:
        return _tried

    def get_device_properties(self, device: Any = None) -> dict[str, int]:
        facts = cudnn_properties(self._gpu)
        return {
            "max_shared_mem": facts["maxSharedMemoryPerBlockOptin"],
            "max_num_regs": facts["regsPerBlock"],
            "multiprocessor_count": facts["multiProcessorCount"],
            "warpSize": facts["warpSize"],
            "sm_clock_rate": facts["smClockRateKHz"],
            "mem_clock_rate": facts["memClockRateKHz"],
        }
