"""The optimizer's step on the gradients of a whole batch: once, however often memory runs out in it."""

from __future__ import annotations

from typing import Any, Callable

from ...failure import Failure
from ...memory.clean_up import drop_dead_frames, give_back_caches
from ..parts.batch_run import BatchRun
from ..restore.optimizer_guard import OptimizerGuard
from ..rules.fitting import Fitting
from ..rules.ladder import GIVE_BACK, Decision
from .closure import Closure
from .training import Training

MAX_RETRIES = 2


class OptimizerStep:
    """Gradients are reduced, unscaled and clipped once a batch: the run knows what was done to them."""

    def __init__(
        self,
        training: Training,
        guard: OptimizerGuard,
        clip: float | None,
        ranks: Any,
        fitting: Fitting,
    ) -> None:
        self._training = training
        self._guard = guard
        self._clip = clip
        self._ranks = ranks
        self._fitting = fitting

    def make(self, run: BatchRun, look_again: Callable[[], Any] | None = None) -> bool:
        """Reduces, clips and steps once; False where the batch has to be done again.

        `look_again` is for optimizers that want the loss more than once a step.
        """
        for attempt in range(MAX_RETRIES + 1):
            try:
                self._once(run, look_again)
                break
            except Exception as error:
                if not self._may_retry(run, error, attempt):
                    raise
                drop_dead_frames(error)
            give_back_caches()
            if self._training.gradients.touched():
                self._refuse_if_shared(run)
                self._training.start_again(run)
                return False
        if self._training.scaler is not None:
            self._training.scaler.update()
        return True

    def clip(self, run: BatchRun) -> bool:
        """Whether there was anything to clip, and still to do."""
        if self._clip is None or run.clipped:
            return False
        own = getattr(self._training.model, "clip_grad_norm_", None)
        if own is not None:
            # FSDP knows how to take the norm over all shards.
            own(self._clip)
        else:
            from torch.nn.utils import clip_grad_norm_

            clip_grad_norm_(self._training.gradients.parameters, self._clip)
        run.clipped = True
        return True

    def _once(self, run: BatchRun, look_again: Callable[[], Any] | None) -> None:
        optimizer, scaler, gradients = (
            self._training.optimizer,
            self._training.scaler,
            self._training.gradients,
        )
        gradients.mark()
        if self._ranks.world > 1 and not run.reduced:
            agreed = self._ranks.reduce(gradients.parameters, self._fitting.sizer.take_wish())
            run.reduced = True
            self._fitting.sizer.set(agreed)
            gradients.mark()
        if scaler is not None and not run.unscaled:
            scaler.unscale_(optimizer)
            run.unscaled = True
            gradients.mark()
        if self.clip(run):
            gradients.mark()
        self._guard.before_step()
        if scaler is not None:
            scaler.step(optimizer)
        elif look_again is not None:
            optimizer.step(Closure(run.loss, look_again))
        else:
            optimizer.step()
        self._guard.after_step()

    def _may_retry(self, run: BatchRun, error: Exception, attempt: int) -> bool:
        """Puts the optimizer back as it was; False lets the error go on, and the other ranks know."""
        found = self._fitting.out_of_memory(error)
        last = attempt >= MAX_RETRIES
        if found is not None:
            why = "the optimizer's step was put back; cached memory was given back"
            size = self._fitting.sizer.size or run.count
            self._fitting.note(
                Decision("raise" if last else "retry", size, GIVE_BACK, why), size, found, "step"
            )
            if not last:
                self._fitting.decider.report_rung(GIVE_BACK, f"{why.capitalize()}.")
            run.failures += 1
            try:
                self._guard.roll_back()
            except Failure as refused:
                self._ranks.gave_up(refused.fact)
                raise
        if found is None or last:
            self._ranks.gave_up(str(error))
            return False
        return True

    def _refuse_if_shared(self, run: BatchRun) -> None:
        if not run.reduced:
            return
        self._ranks.gave_up("gradients were changed in part after they were reduced")
        raise Failure(
            "half-scaled-gradients",
            "memory ran out while gradients that all ranks share were scaled",
            "restart from the last checkpoint",
        )
