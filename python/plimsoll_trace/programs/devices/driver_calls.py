"""Calls that go past PyTorch to the driver or a library of CUDA: the runtime, marks for profilers, caches of plans.

None of them asks the allocator for memory, so each answers as where all went well.
"""

from __future__ import annotations

from typing import Any, Callable

import torch
import torch.backends.cuda
import torch.cuda.nvtx
import torch.cuda.profiler

from ...standins.patches import Patches

_SUCCESS = 0
_OWN_POOL = "the program takes memory from a pool of its own (torch.cuda.MemPool); it is counted with all others"


def install(
    patches: Patches, free_and_total: Callable[[], Any], note: Callable[[str], Any]
) -> None:
    runtime = Runtime(free_and_total)
    patches.set(torch.cuda, "cudart", lambda: runtime)
    patches.set(torch.cuda, "check_error", lambda _: None)
    for owner, names in _SILENT:
        for name in names:
            if hasattr(owner, name):
                patches.set(owner, name, _answering(_SUCCESS))
    patches.set(torch.backends.cuda, "cufft_plan_cache", PlanCache())
    if hasattr(torch.cuda, "MemPool"):
        patches.set(torch.cuda, "MemPool", _pools(note))
        patches.set(torch.cuda, "use_mem_pool", UsePool)
        patches.set(torch.cuda.memory, "MemPool", torch.cuda.MemPool)
        patches.set(torch.cuda.memory, "use_mem_pool", UsePool)


class Runtime:
    """`torch.cuda.cudart()`: functions that answer whether they worked."""

    def __init__(self, free_and_total: Callable[[], Any]) -> None:
        self._free_and_total = free_and_total

    def cudaMemGetInfo(self, _device: int = 0) -> Any:
        return self._free_and_total()

    def cudaGetErrorString(self, _error: Any) -> str:
        return "no error"

    def __getattr__(self, name: str) -> Any:
        if name == "cudaError":
            return _Errors
        if not name.startswith("cuda"):
            raise AttributeError(name)
        return _answering(_SUCCESS)


class _Errors:
    success = _SUCCESS


class UsePool:
    """A context that changes nothing."""

    def __init__(self, *_: Any, **__: Any) -> None:
        pass

    def __enter__(self) -> None:
        return None

    def __exit__(self, *_: Any) -> None:
        return None


class PlanCache:
    """Plans of Fourier transforms, with what they take from the driver: none of it is the allocator's."""

    size = 0
    max_size = 4096

    def __getitem__(self, _device: Any) -> PlanCache:
        return self

    def clear(self) -> None:
        pass


def _pools(note: Callable[[str], Any]) -> type:
    class MemPool:
        def __init__(self, *_: Any, **__: Any) -> None:
            note(_OWN_POOL)
            self.id = (0, id(self))
            self.allocator = None

        def use_count(self) -> int:
            return 1

        def snapshot(self, *_: Any, **__: Any) -> list:
            return []

    return MemPool


def _answering(value: Any) -> Callable:
    return lambda *_, **__: value


# Marks in the record of a profiler, its start and end, and waiting for nothing.
_SILENT: tuple[tuple[Any, tuple[str, ...]], ...] = (
    (torch.cuda.nvtx, ("range_push", "range_pop", "range_start", "range_end", "mark")),
    (torch.cuda.profiler, ("start", "stop", "init")),
    (torch.cuda, ("_sleep", "current_blas_handle")),
)
