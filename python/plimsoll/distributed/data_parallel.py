"""DistributedDataParallel: every microbatch without a collective, then one agreed reduction."""

from __future__ import annotations

import logging
from contextlib import AbstractContextManager
from typing import Any

from ..failure import Failure
from .agreement import Agreement
from .reduction import Reduction

log = logging.getLogger("plimsoll")

# How long a rank waits for one that is still computing. Not a hang: a rank that gives up says so.
PATIENCE_SECONDS = 1800.0


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
