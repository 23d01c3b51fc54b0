"""The calls of one function: what is left of the one that runs, and what follows when memory runs out."""

from __future__ import annotations

import itertools
import time
from collections import Counter

from ..bridge import connection, phase
from ..memory.clean_up import give_back_caches
from ..memory.gauge import CurrentGauge
from .rules.decider import wait_seconds
from .rules.fitting import Fitting

# For other processes to leave a device that they fill.
PATIENCE_SECONDS = 60.0

_numbers = itertools.count()


class CallRun:
    """One call on its way through its parts."""

    def __init__(self, count: int) -> None:
        self.count = count
        self.done = self.attempt = self.failures = 0
        self.partition: list[int] = []
        # A function has no gradients that a failure could take with it.
        self.lost: Counter[int] = Counter()
        self.waited = False

    def finished(self, samples: int) -> None:
        self.done += samples
        self.attempt = 0
        self.partition.append(samples)


class Calls:
    """How often a function was recovered, and how it is kept within memory."""

    def __init__(self, name: str, microbatch: int | None, grow_after: int) -> None:
        gauge = CurrentGauge()
        bridge = connection.current()
        rank = f"@{bridge.rank}" if bridge is not None and bridge.world > 1 else ""
        who = f"{name}-{next(_numbers)}{rank}"
        self.recoveries = 0
        self.fitting = Fitting(
            who, gauge, microbatch, grow_after, may_differ=True, patience=PATIENCE_SECONDS
        )
        self.fitting.work.is_training = False
        if bridge is not None:
            self.fitting.work.declare(["microbatch"], bridge.rank, bridge.world)

    def begin(self, count: int) -> CallRun:
        self.fitting.take_growth()
        self.fitting.sizer.begin(count)
        self.fitting.foresee(count)
        return CallRun(count)

    def failed(self, run: CallRun, size: int, error: Exception) -> bool:
        """Decides; False lets the error go on."""
        found = self.fitting.out_of_memory(error)
        if found is None:
            return False
        run.attempt += 1
        run.failures += 1
        decider = self.fitting.decider
        decision = decider.decide(run, size, found, phase.FORWARD, [], None)
        self.fitting.note(decision, size, found, phase.FORWARD)
        if decision.action == "raise":
            return False
        self.recoveries += 1
        run.waited = decision.action == "wait"
        self.fitting.sizer.failed(
            size, min(size, decision.microbatch), run.waited, decider.others_hold()
        )
        if decision.microbatch < size:
            run.attempt = 0
        return True

    def after_failure(self, run: CallRun) -> None:
        give_back_caches()
        if run.waited:
            time.sleep(wait_seconds(run.attempt))
