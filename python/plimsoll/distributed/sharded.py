"""FSDP: its collectives run inside forward and backward, so a failed step ends on all ranks at once."""

from __future__ import annotations

import logging
import os
import threading
from contextlib import AbstractContextManager, nullcontext
from typing import Any

from .agreement import Agreement

log = logging.getLogger("plimsoll")

# A rank that gave up is noticed this fast by those that wait for it in a collective.
LOOK_SECONDS = 0.25
PATIENCE_SECONDS = 1800.0


def is_sharded(model: Any) -> bool:
    try:
        from torch.distributed.fsdp import FullyShardedDataParallel
    except ImportError:
        return False
    kinds = [FullyShardedDataParallel]
    try:
        from torch.distributed.fsdp import FSDPModule

        kinds.append(FSDPModule)
    except ImportError:
        pass
    return any(isinstance(module, tuple(kinds)) for module in model.modules())


class ShardedRanks:
    """A rank that runs out of memory while the others wait for it in a collective cannot retry: the
    collective would never match. It says so out of band; a thread on each other rank hears that and
    aborts the process groups, so that every rank ends with an error instead of waiting. What prevents
    it: all ranks use the same microbatch, the smallest that any of them wants.
    """

    may_retry = False
    sizes_may_differ = False

    def __init__(self, model: Any, patience: float = PATIENCE_SECONDS) -> None:
        import torch.distributed as dist

        self.rank, self.world = dist.get_rank(), dist.get_world_size()
        self._patience = patience
        self._agreement = Agreement(self.rank, self.world)
        self._stop = threading.Event()
        self._watcher: threading.Thread | None = None

    @property
    def round(self) -> int:
        return self._agreement.reported_round

    def begin(self) -> None:
        if self._watcher is None:
            self._watcher = threading.Thread(target=self._watch, name="plimsoll-ranks", daemon=True)
            self._watcher.start()

    def no_sync(self) -> AbstractContextManager[Any]:
        # Sharded gradients are reduced in every backward: unsharded ones would not fit in memory.
        return nullcontext()

    def failed(self, microbatch: int) -> None:
        pass

    def reduce(self, parameters: list[Any], microbatch: int) -> int | None:
        """FSDP has reduced already; the ranks agree that all are done, and on the next size."""
        verdict = self._agreement.finished(microbatch, str(microbatch), self._patience)
        return min(int(size) for size in verdict.detail)

    def gave_up(self, why: str) -> None:
        self._stop.set()
        self._agreement.leave(why)

    def close(self) -> None:
        self._stop.set()

    def _watch(self) -> None:
        channel = self._agreement._channel
        while not self._stop.wait(LOOK_SECONDS):
            try:
                gone = channel.gone()
            except RuntimeError:
                return
            if gone is not None:
                log.error(
                    "plimsoll: rank %s gave up; the collectives of rank %d are aborted",
                    gone,
                    self.rank,
                )
                abort_groups()
                return


def abort_groups() -> None:
    """Ends every collective in flight with an error. Where torch cannot, ends this process."""
    from torch.distributed import distributed_c10d

    for group in list(distributed_c10d._world.pg_map):
        for name in ("abort", "shutdown"):
            try:
                getattr(group, name)()
                break
            except (AttributeError, RuntimeError, NotImplementedError):
                continue
        else:
            os._exit(1)
