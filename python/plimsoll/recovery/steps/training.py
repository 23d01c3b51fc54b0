"""What is trained: what a batch changes in it before the optimizer's step, and how that is put back."""

from __future__ import annotations

import time
from typing import Any, Callable

from ...bridge import phase
from ...memory.clean_up import clear_workspaces, drop_dead_frames, give_back_caches
from ...memory.gauge import HostGauge
from ...memory.out_of_memory import OutOfMemory
from .. import restore
from ..parts import BatchRun
from ..restore import Gradients, RandomState, RunningStatistics
from ..rules.decider import Fitting, wait_seconds
from ..rules.ladder import HOOKS, Decision


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


# A microbatch that ran out of memory: what is done about it, and all made ready for another try.


class Retry:
    def __init__(
        self, training: Training, fitting: Fitting, ranks: Any, rungs: dict[str, Callable[[], Any]]
    ) -> None:
        self._training = training
        self._fitting = fitting
        self._ranks = ranks
        # Each is climbed once, and then gone.
        self._rungs = rungs
        self._decision: Any = None

    def decide(self, run: BatchRun, failed: int, found: OutOfMemory, where: str) -> bool:
        """What is to be done; False lets the error go on."""
        run.attempt += 1
        run.failures += 1
        hooks = [name for name in HOOKS if name in self._rungs]
        self._decision = self._fitting.decider.decide(
            run, failed, found, where, hooks, self._ranks.round
        )
        self._fitting.note(self._decision, failed, found, where)
        if self._decision.action == "raise" or not self._ranks.may_retry:
            self._ranks.gave_up(found.message)
            return False
        return True

    def prepare(self, run: BatchRun, failed: int, random: RandomState) -> None:
        """Puts all back as it was before the microbatch, frees, and does what was decided."""
        # Gradients of the failed backward go first: what they held is given back with the rest.
        self._training.put_back(run, random, failed)
        on_host = isinstance(self._fitting.gauge, HostGauge)
        # Workspaces would look like memory that cycles hold, and a collection takes tenths of a second.
        clear_workspaces()
        give_back_caches(collect=on_host or self._is_held(), of_host=on_host)
        self._climb(self._decision, run)
        self._resize(self._decision, run, failed)

    def _is_held(self) -> bool:
        """Whether more is in use than between steps and for gradients: cycles may hold the rest."""
        rests = self._fitting.sizer.peaks.base_bytes
        gradients = self._training.gradients.held_bytes()
        return rests is None or self._fitting.gauge.used_bytes() > 1.05 * (rests + gradients)

    def _climb(self, decision: Decision, run: BatchRun) -> None:
        """The rung that the program declared, or a wait for other processes."""
        hook = next((name for name, rung in HOOKS.items() if rung == decision.rung), None)
        if hook in self._rungs:
            self._rungs.pop(hook)()
        elif decision.action == "wait":
            time.sleep(wait_seconds(run.attempt))

    def _resize(self, decision: Decision, run: BatchRun, failed: int) -> None:
        if decision.microbatch < failed:
            run.attempt = 0
        sizer = self._fitting.sizer
        waited, others_hold = decision.action == "wait", self._fitting.decider.others_hold()
        sizer.failed(failed, min(decision.microbatch, failed), waited, others_hold)
        self._ranks.failed(sizer.size)


# One microbatch as a `with` block: what runs out of memory inside it is recovered.


class Microbatch:
    """Some samples of a batch, and the share of the batch's mean loss that they carry."""

    def __init__(
        self,
        training: Training,
        fitting: Fitting,
        retry: Retry,
        run: BatchRun,
        start: int,
        stop: int,
        samples: Any,
        share: float,
    ) -> None:
        self.batch = samples
        self.start = start
        self.stop = stop
        self.share = share
        self.used = False
        self._training = training
        self._fitting = fitting
        self._retry = retry
        self._run = run
        self._loss: Any = None

    def __len__(self) -> int:
        return self.stop - self.start

    def __enter__(self) -> Microbatch:
        self.used = True
        self._random = self._run.random_before_part()
        self._graph = restore.mark()
        self._training.mark()
        phase.enter(phase.FORWARD)
        return self

    def backward(self, loss: Any) -> None:
        """Adds this microbatch's gradients, scaled so that all of them sum to the batch's."""
        scaled = self._training.scaled(loss if self.share == 1 else loss * self.share)
        phase.enter(phase.BACKWARD)
        scaled.backward()
        self.counted(loss if loss.element_size() > 4 else loss.detach().float())

    def counted(self, loss: Any) -> None:
        """Its gradients were added; halves lose digits when parts are summed, so a part's loss is not in halves."""
        self._loss = loss.detach()

    def __exit__(self, kind: Any, error: Any, trace: Any) -> bool:
        if error is None:
            self._run.finished(len(self), self._loss, self.share)
            self._fitting.part_done(self._run)
            return False
        found = self._fitting.out_of_memory(error)
        if found is None:
            return False
        self._loss = None
        # Decided while the frames still hold everything; from here on nothing may refer to them.
        frame = trace.tb_frame
        del trace
        if not self._retry.decide(self._run, len(self), found, phase.current()):
            return False
        drop_dead_frames(error)
        restore.let_go(frame, self._graph)
        self._retry.prepare(self._run, len(self), self._random)
        return True
