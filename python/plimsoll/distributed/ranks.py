"""The ranks of a job, as a step sees them: one alone, or several that agree before they meet."""

from __future__ import annotations

import logging
import os
import sys
import threading
from contextlib import AbstractContextManager, nullcontext
from typing import Any

from ..failure import Failure
from .agreement import Agreement

# DistributedDataParallel: every microbatch without a collective, then one agreed reduction.

log = logging.getLogger("plimsoll")

# How long a rank waits for one that is still computing. Not a hang: a rank that gives up says so.
PATIENCE_SECONDS = 1800.0


# Averages gradients over ranks in flat buckets that were allocated beforehand.

# As DDP does: large enough for the network, small beside the gradients.
BUCKET_BYTES = 25 * 2**20


class Reduction:
    def __init__(self, group: Any, world: int) -> None:
        self._group = group
        self._world = world
        self._flats: dict[tuple[Any, Any], Any] = {}

    def prepare(self, parameters: list[Any]) -> None:
        """Gets the memory that averaging needs; it may run out here, and only here."""
        import torch

        for kind, bucket in buckets(parameters):
            size = sum(p.numel() for p in bucket)
            if kind not in self._flats or self._flats[kind].numel() < size:
                self._flats[kind] = torch.empty(size, dtype=kind[1], device=kind[0])

    def average(self, parameters: list[Any], missing: frozenset[str]) -> None:
        """Gradients that no rank has stay None; where only some have one, the others count as zero."""
        import torch
        import torch.distributed as dist

        nowhere = set.intersection(*(_numbers(text) for text in missing)) if missing else set()
        used = [p for i, p in enumerate(parameters) if i not in nowhere]
        with torch.no_grad():
            for kind, bucket in buckets(used):
                flat = self._flats[kind][: sum(p.numel() for p in bucket)]
                parts = flat.split([p.numel() for p in bucket])
                for part, parameter in zip(parts, bucket):
                    if parameter.grad is None:
                        part.zero_()
                    else:
                        part.copy_(parameter.grad.reshape(-1))
                # Divided before the sum, as DDP does: half precision overflows less.
                flat.div_(self._world)
                dist.all_reduce(flat, group=self._group)
                for part, parameter in zip(parts, bucket):
                    if parameter.grad is None:
                        parameter.grad = part.reshape(parameter.shape).clone()
                    else:
                        parameter.grad.copy_(part.reshape(parameter.shape))

    def broadcast(self, buffers: list[Any]) -> None:
        """Buffers as the first rank has them, as DDP does before a forward."""
        import torch.distributed as dist

        source = dist.get_global_rank(self._group, 0) if buffers else 0
        for buffer in buffers:
            dist.broadcast(buffer.detach(), source, group=self._group)


def buckets(parameters: list[Any]) -> list[tuple[tuple[Any, Any], list[Any]]]:
    """Parameters in their order, of one device and dtype, up to a size: the same on every rank."""
    found: list[tuple[tuple[Any, Any], list[Any]]] = []
    held = 0
    for parameter in parameters:
        kind = (parameter.device, parameter.dtype)
        size = parameter.numel() * parameter.element_size()
        if not found or found[-1][0] != kind or held + size > BUCKET_BYTES:
            found.append((kind, []))
            held = 0
        found[-1][1].append(parameter)
        held += size
    return found


def _numbers(text: str) -> set[int]:
    return {int(word) for word in text.split(",") if word}


class DataParallelRanks:
    """DDP reduces inside backward, where a rank that fails leaves the others waiting. Here all
    microbatches run under `no_sync`; when every rank has said that it is done, gradients are averaged
    at once. Ranks need not have the same number of microbatches, and each keeps what it finished.
    """

    may_retry = True
    sizes_may_differ = True

    def __init__(self, model: Any, patience: float = PATIENCE_SECONDS) -> None:
        import torch.distributed as dist

        if getattr(model, "_comm_hooks", None):
            raise Failure(
                "comm-hook",
                "this model has a communication hook of DDP, which a recovering step would not call",
                "leave the hook out: gradients are averaged once a batch, in the gradients' own dtype",
            )
        self._model = model
        self._patience = patience
        group = model.process_group
        self.rank, self.world = dist.get_rank(group), dist.get_world_size(group)
        self._agreement = Agreement(self.rank, self.world)
        self._reduction = Reduction(group, self.world)

    @property
    def round(self) -> int:
        return self._agreement.reported_round

    def begin(self) -> None:
        # A forward that will not be reduced must not broadcast buffers either: that too is a collective.
        self._model.require_forward_param_sync = False

    def no_sync(self) -> AbstractContextManager[Any]:
        return self._model.no_sync()

    def failed(self, microbatch: int) -> None:
        self._agreement.failed(microbatch)

    def reduce(self, parameters: list[Any], microbatch: int) -> int | None:
        """Averages gradients over all ranks, once all are done; the size that they go on with."""
        trained = [p for p in parameters if p.requires_grad]
        # What needs memory comes before the word: after it, nothing may fail on this rank alone.
        self._reduction.prepare(trained)
        missing = ",".join(str(i) for i, p in enumerate(trained) if p.grad is None)
        verdict = self._agreement.finished(microbatch, missing, self._patience)
        self._reduction.average(trained, verdict.detail)
        self._reduction.broadcast(self._buffers())
        return min(microbatch, verdict.microbatch) if verdict.microbatch else None

    def gave_up(self, why: str) -> None:
        self._agreement.leave(why)

    def close(self) -> None:
        pass

    def _buffers(self) -> list[Any]:
        if not self._model.broadcast_buffers:
            return []
        return list(getattr(self._model, "modules_buffers", []))


# FSDP: its collectives run inside forward and backward, so a failed step ends on all ranks at once.


# A rank that gave up is noticed this fast by those that wait for it in a collective.
LOOK_SECONDS = 0.25


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
        return DataParallelRanks(model)

    return ShardedRanks(model) if is_sharded(model) else Alone()
