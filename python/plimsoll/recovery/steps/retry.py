"""A microbatch that ran out of memory: what is done about it, and all made ready for another try."""

from __future__ import annotations

import time
from typing import Any, Callable

from ...memory.clean_up import clear_workspaces, give_back_caches
from ...memory.gauge import HostGauge
from ...memory.out_of_memory import OutOfMemory
from ..parts.batch_run import BatchRun
from ..restore.random_state import RandomState
from ..rules.decider import wait_seconds
from ..rules.fitting import Fitting
from ..rules.ladder import HOOKS, Decision
from .training import Training


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
