"""One rank of several in one process: collectives that reach no one, and the buckets of DDP.

What DDP holds on the GPU does not depend on how many ranks there are: one more copy of all gradients,
in buckets. The first bucket is small. After the first step they are rebuilt in the order in which gradients arrived.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import distributed

from ...failure import Failure
from ..standins.imports import when_imported
from ..standins.patches import Patches

_FIRST_BUCKET = 1 << 20
_MIB = 1 << 20
NOTE = (
    "one rank of {} was traced: its collectives reach no one, and buffers of NCCL, some hundred MiB "
    "outside of PyTorch's allocator, are not counted"
)


class Group:
    """Stands for any group of processes."""

    def __init__(self, size: int) -> None:
        self._size = size

    def size(self) -> int:
        return self._size

    def rank(self) -> int:
        return 0


class _Done:
    """What an asynchronous collective returns."""

    def wait(self, *_: Any) -> bool:
        return True

    def is_completed(self) -> bool:
        return True

    def get_future(self) -> Any:
        future: Any = torch.futures.Future()
        future.set_result(None)
        return future


class World:
    def __init__(self, observer: Any, processes: int) -> None:
        self.size = processes
        self.begun = False
        self._observer = observer

    def begin(self, *_: Any, world_size: int = -1, rank: int = -1, **__: Any) -> None:
        # A program that starts its ranks itself says how many there are.
        self.size = world_size if world_size > 0 else self.size
        self.begun = True
        if self.size > 1:
            self._observer.notes.add(NOTE.format(self.size))

    def end(self, *_: Any) -> None:
        self.begun = False

    def table(self) -> dict[str, Any]:
        def nothing(*_: Any, async_op: bool = False, **__: Any) -> Any:
            return _Done() if async_op else None

        def gathered(
            into: Any, value: Any = None, *_: Any, async_op: bool = False, **__: Any
        ) -> Any:
            for place, held in enumerate(into or ()):
                if not isinstance(held, torch.Tensor):
                    into[place] = value
            return _Done() if async_op else None

        def group(*_: Any, **__: Any) -> Group:
            return Group(self.size)

        names = (
            "all_reduce",
            "reduce",
            "broadcast",
            "barrier",
            "monitored_barrier",
            "all_gather_into_tensor",
            "reduce_scatter",
            "reduce_scatter_tensor",
            "all_to_all",
            "all_to_all_single",
            "broadcast_object_list",
            "scatter",
            "scatter_object_list",
            "send",
            "recv",
        )
        return {
            **dict.fromkeys(names, nothing),
            "all_gather": gathered,
            "all_gather_object": gathered,
            "gather": lambda value, into=None, *a, **k: gathered(into, value, **k),
            "gather_object": lambda value, into=None, *a, **k: gathered(into, value),
            "init_process_group": self.begin,
            "destroy_process_group": self.end,
            "is_initialized": lambda: self.begun,
            "is_nccl_available": lambda: True,
            "get_rank": lambda *_: 0,
            "get_world_size": lambda *_: self.size,
            "get_backend": lambda *_: "nccl",
            "new_group": group,
        }


def install(patches: Patches, observer: Any, processes: int) -> None:
    if not distributed.is_available():
        return
    world = World(observer, processes)
    for module in (distributed, distributed.distributed_c10d):
        for name, answer in world.table().items():
            if hasattr(module, name):
                patches.set(module, name, answer)
    _data_parallel(patches)
    _own_starts(patches, world)
    _sharded(patches)


def _data_parallel(patches: Patches) -> None:
    wrapper = torch.nn.parallel.DistributedDataParallel

    def __init__(self: Any, module: Any, device_ids: Any = None, **settings: Any) -> None:
        torch.nn.Module.__init__(self)
        self.module, self.device_ids, self.dim = module, device_ids, 0
        self.require_backward_grad_sync = True
        self.broadcast_buffers = settings.get("broadcast_buffers", True)
        self.find_unused_parameters = settings.get("find_unused_parameters", False)
        self.gradient_as_bucket_view = settings.get("gradient_as_bucket_view", False)
        limit = int((settings.get("bucket_cap_mb") or 25) * _MIB)
        self._learning = [p for p in module.parameters() if p.requires_grad]
        # Until gradients came once, all of them lie in one bucket.
        self._limits, self._calls = (_FIRST_BUCKET, limit), 0
        self._buckets = _buckets(self._learning, (2**62, 2**62))
        if self.gradient_as_bucket_view:
            for parameter in self._learning:
                parameter.register_post_accumulate_grad_hook(lambda p: _into_bucket(self, p))

    def forward(self: Any, *inputs: Any, **kwargs: Any) -> Any:
        self._calls += 1
        if self._calls == 2:
            self._buckets.clear()
            self._buckets = _buckets(self._learning, self._limits)
        return self.module(*inputs, **kwargs)

    @contextmanager
    def no_sync(self: Any) -> Iterator[None]:
        before, self.require_backward_grad_sync = self.require_backward_grad_sync, False
        try:
            yield
        finally:
            self.require_backward_grad_sync = before

    patches.set(wrapper, "__init__", __init__)
    patches.set(wrapper, "forward", forward)
    patches.set(wrapper, "no_sync", no_sync)
    for name in ("register_comm_hook", "_set_static_graph"):
        patches.set(wrapper, name, lambda *_, **__: None)


def _buckets(parameters: list[Any], limits: tuple[int, int]) -> dict[int, Any]:
    """Where each gradient lies, by its parameter: gradients of the last layers come first."""
    found: dict[int, Any] = {}
    waiting: list[Any] = []
    limit = limits[0]

    def close() -> None:
        if waiting:
            buffer = torch.empty(
                sum(p.numel() for p in waiting), dtype=waiting[0].dtype, device=waiting[0].device
            )
            offset = 0
            for parameter in waiting:
                found[id(parameter)] = buffer[offset : offset + parameter.numel()]
                offset += parameter.numel()
            waiting.clear()

    for parameter in reversed(parameters):
        if waiting and waiting[0].dtype != parameter.dtype:
            close()
        waiting.append(parameter)
        if sum(p.numel() * p.element_size() for p in waiting) >= limit:
            close()
            limit = limits[1]
    close()
    return found


def _into_bucket(wrapper: Any, parameter: Any) -> None:
    place = wrapper._buckets[id(parameter)].view(parameter.shape)
    if parameter.grad.untyped_storage()._cdata != place.untyped_storage()._cdata:
        parameter.grad = place


def _own_starts(patches: Patches, world: World) -> None:
    """A program that starts its ranks itself: the first of them runs here."""
    import torch.multiprocessing as processes

    def spawn(fn: Any, args: tuple = (), nprocs: int = 1, *_: Any, **__: Any) -> None:
        world.size = max(world.size, nprocs)
        fn(0, *args)

    patches.set(processes, "spawn", spawn)


def _sharded(patches: Patches) -> None:
    def refuse(*_: Any, **__: Any) -> None:
        raise Failure(
            "program-sharded",
            "the program shards its model over processes (FSDP), which is not traced",
            "measure it on its GPUs",
        )

    def install_into(fsdp: Any) -> None:
        patches.set(fsdp.FullyShardedDataParallel, "__init__", refuse)
        if hasattr(fsdp, "fully_shard"):
            patches.set(fsdp, "fully_shard", refuse)

    when_imported("torch.distributed.fsdp", install_into)
