"""What is trained: what a batch changes in it before the optimizer's step, and how that is put back."""

from __future__ import annotations

from typing import Any

from ..parts.batch_run import BatchRun
from ..restore.gradients import Gradients
from ..restore.random_state import RandomState
from ..restore.running_statistics import RunningStatistics


class Training:
    """A model and its optimizer. Until the optimizer steps, a batch changes gradients and BatchNorm alone."""

    def __init__(self, model: Any, optimizer: Any, scaler: Any) -> None:
        self.model = model
        self.optimizer = optimizer
        self.scaler = scaler if scaler is not None and scaler.is_enabled() else None
        parameters = [p for group in optimizer.param_groups for p in group["params"]]
        self.gradients = Gradients([*model.parameters(), *parameters])
        self.before_batch = RunningStatistics(model)
        self._before_microbatch = RunningStatistics(model)

    def mark(self) -> None:
        """Before a microbatch: what it may have to be put back to."""
        self.gradients.mark()
        self._before_microbatch.mark()

    def scaled(self, loss: Any) -> Any:
        return loss if self.scaler is None else self.scaler.scale(loss)

    def put_back(self, run: BatchRun, random: RandomState, failed: int) -> None:
        """As before the microbatch; where finished ones are lost with it, as before the batch."""
        self._before_microbatch.put_back()
        if self.gradients.put_back():
            random.restore()
        else:
            run.lost[failed] += 1
            self.start_again(run)
        self.gradients.forget_marks()

    def start_again(self, run: BatchRun) -> None:
        """As before the batch, all of which is to be done again."""
        self.gradients.clear()
        self.before_batch.put_back()
        run.start_again()
        if self.scaler is not None:
            # It remembers that it unscaled the gradients that were just thrown away.
            getattr(self.scaler, "_per_optimizer_states", {}).pop(id(self.optimizer), None)
