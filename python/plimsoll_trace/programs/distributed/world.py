"""One rank of several in one process: a group of processes whose collectives reach no one.

The group itself is PyTorch's own for one rank alone ("fake"), so that meshes, sharded tensors and wrappers
find what they need. What the program sends through it stays as it is.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import suppress
from multiprocessing import process
from types import CodeType
from typing import Any

import torch
from torch import distributed

from ...sharding.parallel import Parallel
from ...standins.patches import Patches
from ..loops.rewritten import is_the_programs

NOTE = (
    "one rank of {} was traced: its collectives reach no one, and buffers of NCCL, some hundred MiB "
    "outside of PyTorch's allocator, are not counted"
)
# Collectives that change nothing here.
_SILENT = (
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


# Ranks that a program starts as processes of `multiprocessing`: the first of them runs here, the others do not.
#
# Other processes are started as they are: they read data, or write files that the program waits for. A rank is told by
# its first argument, a number, by what its function names, and by getting no queue, pipe, lock or shared value.

_NAMED = ("cuda", "nccl", "distributed", "process_group")
# Queues, pipes, locks and shared values, those of torch.multiprocessing as well.
_SHARED = "multiprocessing."


def _install_started_ranks(patches: Patches, saw_ranks: Callable[[int], None]) -> None:
    """`saw_ranks` is called with the number of ranks that were started so far."""

    def start(self: Any) -> None:
        rank = _rank_of(self)
        if rank is None:
            start_process(self)
            return
        saw_ranks(rank + 1)
        self._popen = _Ended()
        if rank == 0:
            # The exit of a process does not end the one that started it.
            with suppress(SystemExit):
                self.run()

    start_process = patches.set(process.BaseProcess, "start", start)


def _rank_of(started: Any) -> int | None:
    """The rank that a process would be, None where it is something else."""
    target, args = started._target, started._args
    code = getattr(target, "__code__", None)
    if code is None or not args or type(args[0]) is not int or started.daemon:
        return None
    if any(map(_is_shared, (*args, *started._kwargs.values()))):
        return None
    return args[0] if is_the_programs(code.co_filename) and _names_gpus(code) else None


def _is_shared(given: Any) -> bool:
    return any(kind.__module__.startswith(_SHARED) for kind in type(given).__mro__)


def _names_gpus(code: CodeType) -> bool:
    texts = (*code.co_names, *(text for text in code.co_consts if isinstance(text, str)))
    return any(word in text.lower() for text in texts for word in _NAMED)


class _Ended:
    """A process that ended well, as `multiprocessing` asks one."""

    returncode = 0

    def __init__(self) -> None:
        self.pid = os.getpid()

    def poll(self, *_: Any) -> int:
        return 0

    def wait(self, timeout: float | None = None) -> int:
        return 0

    def terminate(self) -> None: ...

    kill = close = terminate


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
        self._observer = observer
        self._begin = distributed.init_process_group
        self._end = distributed.destroy_process_group
        self._rank = distributed.get_rank
        self._size_of = distributed.get_world_size
        self._new_group = distributed.new_group
        # How the program spreads its model; None where it does so by hand, or not at all.
        self.parallel: Parallel | None = None

    def begin(self, *_: Any, world_size: int = -1, rank: int = -1, **__: Any) -> None:
        # Gives collectives on the meta device something to call.
        import torch.distributed._tools.fake_collectives  # noqa: F401
        from torch.testing._internal.distributed.fake_pg import FakeStore

        # A program that starts its ranks itself says how many there are.
        self.size = world_size if world_size > 0 else self.size
        self._begin(backend="fake", store=FakeStore(), rank=0, world_size=self.size)

    def end(self, *_: Any) -> None:
        if distributed.is_initialized():
            self._end()

    def spread(self, way: str, replicas: int = 1, tp: int = 1) -> None:
        """Remembers how a model is spread. What shards more of it counts, as it decides the memory."""
        if self.size > 1 and (self.parallel is None or self.parallel.way in ("ddp", "tp")):
            self.parallel = Parallel(way=way, gpus=self.size, nodes=replicas, tp=tp)

    def close(self) -> None:
        """After the program: says what was not counted, and ends a group that it left open."""
        if self.size > 1 and self.parallel is None and distributed.is_initialized():
            self._observer.notes.add(NOTE.format(self.size))
        self.end()

    def table(self) -> dict[str, Any]:
        def nothing(*_: Any, async_op: bool = False, **__: Any) -> Any:
            return _Done() if async_op else None

        def into_list(into: Any, value: Any, async_op: bool = False) -> Any:
            for place, held in enumerate(into or ()):
                if not isinstance(held, torch.Tensor):
                    into[place] = value
            return _Done() if async_op else None

        # With PyTorch's names of arguments: some programs give all of them by name.
        def all_gather(
            tensor_list: Any, tensor: Any, group: Any = None, async_op: Any = False
        ) -> Any:
            return into_list(tensor_list, tensor, async_op)

        def all_gather_object(object_list: Any, obj: Any, group: Any = None) -> Any:
            return into_list(object_list, obj)

        def gather(tensor: Any, gather_list: Any = None, *_: Any, **settings: Any) -> Any:
            return into_list(gather_list, tensor, settings.get("async_op", False))

        def gather_object(obj: Any, object_gather_list: Any = None, *_: Any, **__: Any) -> Any:
            return into_list(object_gather_list, obj)

        def get_rank(group: Any = None) -> int:
            return self._rank(group) if distributed.is_initialized() else 0

        def get_world_size(group: Any = None) -> int:
            return self._size_of(group) if distributed.is_initialized() else self.size

        def new_group(ranks: Any = None, timeout: Any = None, *_: Any, **settings: Any) -> Any:
            named = {k: v for k, v in settings.items() if k in ("group_desc", "sort_ranks")}
            return self._new_group(ranks, **named)

        return {
            **dict.fromkeys(_SILENT, nothing),
            "all_gather": all_gather,
            "all_gather_object": all_gather_object,
            "gather": gather,
            "gather_object": gather_object,
            "init_process_group": self.begin,
            "destroy_process_group": self.end,
            "is_nccl_available": lambda: True,
            "get_rank": get_rank,
            "get_world_size": get_world_size,
            "get_backend": lambda *_: "nccl",
            "new_group": new_group,
        }


def install(patches: Patches, observer: Any, processes: int) -> World:
    world = World(observer, processes)
    for module in (distributed, distributed.distributed_c10d):
        for name, answer in world.table().items():
            if hasattr(module, name):
                patches.set(module, name, answer)
    _own_starts(patches, world)
    return world


def _own_starts(patches: Patches, world: World) -> None:
    """A program that starts its ranks itself: the first of them runs here."""
    import torch.multiprocessing as processes

    def saw_ranks(ranks: int) -> None:
        world.size = max(world.size, ranks)

    def spawn(fn: Any, args: tuple = (), nprocs: int = 1, *_: Any, **__: Any) -> None:
        saw_ranks(nprocs)
        fn(0, *args)

    patches.set(processes, "spawn", spawn)
    _install_started_ranks(patches, saw_ranks)
