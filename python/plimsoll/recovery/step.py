"""A training step that survives running out of memory."""

from __future__ import annotations

import itertools
import logging
import time
from contextlib import nullcontext
from typing import Any, Callable, Dict, Iterator, List, Optional

from ..bridge import phase
from ..distributed import ranks
from ..failure import Failure
from ..memory.clean_up import drop_dead_frames, give_back_caches
from ..memory.gauge import HostGauge, gauge_of
from ..memory.host_cap import fail_before_the_kernel_does
from ..memory.out_of_memory import OutOfMemory, recognise
from .batch_run import BatchRun
from .closure import Closure, check_closure
from .decider import Decider, wait_seconds
from .gradients import Gradients
from .ladder import GIVE_BACK, HOOKS, Decision
from .microbatch import Microbatch
from .optimizer_guard import OptimizerGuard
from .program import declared_rungs, loss_of
from .running_statistics import RunningStatistics
from .settings import Settings, settings
from .sizer import Sizer
from .work import Work

log = logging.getLogger("plimsoll")

MOST_STEP_RETRIES = 2

# All ranks make their steps in the same order, so the same number means the same step.
_numbers = itertools.count()


class RecoveringStep:
    """Runs a batch as microbatches, clips and steps once. Made by `plimsoll.recovering`."""

    def __init__(
        self,
        model: Any,
        optimizer: Any,
        loss: Optional[Callable[[Any], Any]] = None,
        *,
        microbatch: Optional[int] = None,
        clip: Optional[float] = None,
        scaler: Any = None,
        autocast: Any = None,
        share: Any = "auto",
        reduction: str = "mean",
        split: Optional[Callable[[Any, int, int], Any]] = None,
        size: Optional[Callable[[Any], int]] = None,
        backup: str = "first",
        grow_after: int = 20,
        patience: float = 60.0,
        rungs: Optional[Dict[str, Callable[[], Any]]] = None,
    ) -> None:
        self.model = model
        self.optimizer = optimizer
        self.partition: List[int] = []
        self._loss = loss
        self._scaler = scaler if scaler is not None and scaler.is_enabled() else None
        self._settings: Settings = settings(size, split, share, reduction, clip, autocast, patience, rungs)
        parameters = [p for group in optimizer.param_groups for p in group["params"]]
        self._gradients = Gradients([*model.parameters(), *parameters])
        self._guard = OptimizerGuard(optimizer, backup)
        self._statistics = RunningStatistics(model)
        self._first_statistics = RunningStatistics(model)
        self._gauge = gauge_of(model)
        if isinstance(self._gauge, HostGauge):
            fail_before_the_kernel_does()
        self._rungs = declared_rungs(model, self._settings.rungs)
        self._ranks = ranks.of(model)
        self._needs_closure = check_closure(optimizer, self._scaler, self._ranks.world)
        self._sizer = Sizer(microbatch, grow_after, self._gauge, self._ranks.sizes_may_differ)
        self._work = Work(f"step-{next(_numbers)}", self._sizer, self._gauge)
        self._decider = Decider(
            self._gauge, self._sizer.line, self._work.bridge, self._settings.patience, self._work.who
        )
        self.events = self._decider.events
        self._work.declare(["microbatch", *self._rungs], self._ranks.rank, self._ranks.world)
        if self._statistics.modules:
            log.warning(
                "plimsoll: this model has BatchNorm; its statistics are of a microbatch, so a batch that is "
                "cut does not train exactly as a whole one does"
            )

    @property
    def steps(self) -> int:
        """Steps that were made."""
        return self._work.steps

    @property
    def microbatch(self) -> Optional[int]:
        """The size of the next microbatch; None before the first batch. It can be set."""
        return self._sizer.size

    @microbatch.setter
    def microbatch(self, size: Optional[int]) -> None:
        self._sizer.set(size)

    def __call__(self, batch: Any, loss: Optional[Callable[[Any], Any]] = None) -> Any:
        """One step on one batch; the batch's loss, detached. Without a loss yet, takes it (a decorator)."""
        use = loss or self._loss
        if use is None:
            if callable(batch):
                self._loss = batch
                return self
            raise Failure("no-loss", "this step was given no loss", "pass loss=lambda batch: ..., or decorate one")
        run = self._begin(batch)
        while True:
            self._evaluate(run, use)
            if self._finish(run, use):
                return run.loss

    def _evaluate(self, run: BatchRun, loss: Callable[[Any], Any]) -> None:
        """The loss and the gradients of what is left of a batch."""
        while True:
            piece = self._next(run)
            if piece is None:
                return
            with piece, self._ranks.no_sync():
                with self._autocast():
                    value = loss_of(loss(piece.batch))
                piece.backward(value)
                del value

    def microbatches(self, batch: Any) -> Iterator[Microbatch]:
        """For loops of one's own: `with` each microbatch; after the last, the optimizer has stepped."""
        if self._needs_closure:
            raise Failure(
                "closure-needed",
                f"{type(self.optimizer).__name__} computes the loss more than once a step",
                "give the loss to plimsoll.recovering and call step(batch)",
            )
        run = self._begin(batch)
        while True:
            piece = self._next(run)
            if piece is None:
                if self._finish(run):
                    return
                continue
            with self._ranks.no_sync():
                yield piece
            if not piece.used:
                raise Failure("microbatch-unused", "a microbatch was not entered", "write: with microbatch: ...")

    def __enter__(self) -> "RecoveringStep":
        return self

    def __exit__(self, *_: Any) -> None:
        self.close()

    def close(self) -> None:
        """Says goodbye to the other ranks. Gradients, model and optimizer are left as they are."""
        self._ranks.close()

    def report(self) -> Dict[str, Any]:
        """What happened so far: sizes, recoveries and why, and the line of measured peaks."""
        line = self._sizer.line.line()
        return {
            "steps": self.steps,
            "microbatch": self.microbatch,
            "recoveries": list(self.events),
            "peakLine": None if line is None else {"baseBytes": int(line[0]), "bytesPerSample": int(line[1])},
            "source": "measured",
        }

    # One batch, from its first microbatch to the optimizer's step.

    def _begin(self, batch: Any) -> BatchRun:
        self._take_growth()
        count = self._settings.splitter.size(batch)
        self._gradients.clear()
        self._sizer.begin(count)
        self._first_statistics.mark()
        self._ranks.begin()
        return BatchRun(batch, count, self._settings, self.model)

    def _next(self, run: BatchRun) -> Optional[Microbatch]:
        part = run.part(self.microbatch or run.count)
        return None if part is None else Microbatch(self, run, *part)

    def _finish(self, run: BatchRun, loss: Optional[Callable[[Any], Any]] = None) -> bool:
        """Reduces, clips and steps once; False where the batch has to be done again."""
        phase.enter(phase.STEP)
        for attempt in range(MOST_STEP_RETRIES + 1):
            try:
                self._step_once(run, loss)
                break
            except Exception as error:
                if not self._may_retry_step(run, error, attempt):
                    raise
                drop_dead_frames(error)
            give_back_caches()
            if self._gradients.touched():
                if run.reduced:
                    self._ranks.gave_up("gradients were changed in part after they were reduced")
                    raise Failure(
                        "half-scaled-gradients",
                        "memory ran out while gradients that all ranks share were scaled",
                        "restart from the last checkpoint",
                    )
                self._redo(run)
                return False
        self._finished(run)
        return True

    def _step_once(self, run: BatchRun, loss: Optional[Callable[[Any], Any]]) -> None:
        self._gradients.mark()
        if self._ranks.world > 1 and not run.reduced:
            agreed = self._ranks.reduce(self._gradients.parameters, self._sizer.take_wish())
            run.reduced = True
            self._sizer.set(agreed)
            self._gradients.mark()
        if self._scaler is not None and not run.unscaled:
            self._scaler.unscale_(self.optimizer)
            run.unscaled = True
            self._gradients.mark()
        if self._clip_once(run):
            self._gradients.mark()
        self._guard.before_step()
        if self._scaler is not None:
            self._scaler.step(self.optimizer)
        elif self._needs_closure and loss is not None:
            self.optimizer.step(Closure(self, run, loss))
        else:
            self.optimizer.step()
        self._guard.after_step()

    def _clip_once(self, run: BatchRun) -> bool:
        if self._settings.clip is None or run.clipped:
            return False
        self._clip(self._settings.clip)
        run.clipped = True
        return True

    def _clip(self, most: float) -> None:
        own = getattr(self.model, "clip_grad_norm_", None)
        if own is not None:
            # FSDP knows how to take the norm over all shards.
            own(most)
            return
        from torch.nn.utils import clip_grad_norm_

        clip_grad_norm_(self._gradients.parameters, most)

    def _finished(self, run: BatchRun) -> None:
        if self._scaler is not None:
            self._scaler.update()
        self._gradients.clear()
        self.partition = run.partition
        phase.enter(phase.IDLE)
        self._work.done(run, self._grow)

    # When memory runs out.

    def _recognise(self, error: BaseException) -> Optional[OutOfMemory]:
        return recognise(error, self._gauge.used_share)

    def _failed(self, run: BatchRun, piece: Microbatch, error: BaseException, found: OutOfMemory, where: str) -> bool:
        """Decides, frees, puts all back as it was before the microbatch; False lets the error go on."""
        run.attempt += 1
        run.failures += 1
        failed = len(piece)
        hooks = [name for name in HOOKS if name in self._rungs]
        decision = self._decider.decide(run, failed, found, where, hooks, self._ranks.round)
        self._decider.note(decision, failed, found, where, self.steps)
        if decision.action == "raise" or not self._ranks.may_retry:
            self._ranks.gave_up(found.message)
            return False
        drop_dead_frames(error)
        give_back_caches()
        hook = next((name for name, rung in HOOKS.items() if rung == decision.rung), None)
        if hook in self._rungs:
            self._rungs.pop(hook)()
        elif decision.action == "wait":
            time.sleep(wait_seconds(run.attempt))
        if decision.microbatch < failed:
            run.attempt = 0
        waited, others_hold = decision.action == "wait", self._decider.others_hold()
        self._sizer.failed(failed, min(decision.microbatch, failed), waited, others_hold)
        self._ranks.failed(self.microbatch)
        self._statistics.put_back()
        if self._gradients.put_back():
            piece.put_back_random()
        else:
            self._redo(run)
        self._gradients.forget_marks()
        return True

    def _redo(self, run: BatchRun) -> None:
        self._gradients.clear()
        self._first_statistics.put_back()
        run.start_anew()
        if self._scaler is not None:
            # It remembers that it unscaled the gradients that were just thrown away.
            getattr(self._scaler, "_per_optimizer_states", {}).pop(id(self.optimizer), None)

    def _may_retry_step(self, run: BatchRun, error: Exception, attempt: int) -> bool:
        """Puts the optimizer back as it was; False lets the error go on, and the other ranks know."""
        found = self._recognise(error)
        last = attempt >= MOST_STEP_RETRIES
        if found is not None:
            why = "the optimizer's step was put back; cached memory was given back"
            decision = Decision("raise" if last else "retry", self.microbatch, GIVE_BACK, why)
            self._decider.note(decision, self.microbatch, found, "step", self.steps)
            if not last:
                self._decider.tell_rung(GIVE_BACK, f"{why.capitalize()}.")
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

    # Sizes.

    def _part_done(self, run: BatchRun) -> None:
        if not self._work.watched:
            self._sizer.clean_part(run, self._grow)

    def _take_growth(self) -> None:
        wanted = self._work.growth()
        if wanted is not None:
            self._decider.note_growth(self.microbatch, wanted, "the supervisor said so", self.steps)
            self._sizer.grow(wanted)

    def _grow(self, size: int, why: str) -> None:
        """Decided here, because no supervisor is there to do it."""
        self._decider.note_growth(self.microbatch, size, why, self.steps)
        self._decider.tell_rung("grow-back", f"{why}: {self.microbatch} becomes {size}.")
        self._sizer.grow(size)

    def _autocast(self) -> Any:
        if self._settings.autocast is None:
            return nullcontext()
        import torch

        device = "cuda" if self._gauge.device.startswith("cuda") else "cpu"
        return torch.autocast(device, dtype=self._settings.autocast)
