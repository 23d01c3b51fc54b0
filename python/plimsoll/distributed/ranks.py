"""The ranks of a job, as a step sees them: one alone, or several that agree before they meet."""

from __future__ import annotations

import sys
from contextlib import AbstractContextManager, nullcontext
from typing import Any


class Alone:
    """A process that trains by itself."""

    rank = 0
    world = 1
    round = None
    may_retry = True
    sizes_may_differ = True

    def begin(self) -> None:
        pass

    def no_sync(self) -> AbstractContextManager[Any]:
        return nullcontext()

    def failed(self, microbatch: int) -> None:
        pass

    def gave_up(self, why: str) -> None:
        pass

    def close(self) -> None:
        pass


def of(model: Any) -> Any:
    """Who trains this model: wrapped in DDP or FSDP, all ranks of its group."""
    torch = sys.modules["torch"]
    distributed = torch.distributed
    if (
        not distributed.is_available()
        or not distributed.is_initialized()
        or distributed.get_world_size() == 1
    ):
        return Alone()
    from torch.nn.parallel import DistributedDataParallel

    if isinstance(model, DistributedDataParallel):
        from .data_parallel import DataParallelRanks

        return DataParallelRanks(model)
    from .sharded import ShardedRanks, is_sharded

    return ShardedRanks(model) if is_sharded(model) else Alone()
