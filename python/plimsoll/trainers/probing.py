"""After the first failure: two small parts of the batch, measured, tell what fits. By halves it would fail again."""

from __future__ import annotations

import math
from typing import Any

from ..memory.gauge import HostGauge
from ..recovery.rules.fitting import Fitting
from ..recovery.rules.sizes import LOAD_LINE
from ..recovery.steps.training import Training

# As many as the loss is tried with: the card has loaded the kernels for that many.
SAMPLES = 2
# The first part makes the gradients; what a sample takes beside them shows in the second.
PARTS = 2
# Most optimizers keep two numbers for each parameter, made in their first step.
MOMENTS = 2


class Probe:
    """Its parts count as any others do: nothing is done twice, no sample is left out."""

    def __init__(self, fitting: Fitting, training: Training) -> None:
        self._fitting = fitting
        self._training = training
        # What the allocator of a card says is exact; the host's figures are too coarse for a few samples.
        self._over = isinstance(fitting.gauge, HostGauge)
        self._looking = False
        self._parts = self._failures = self._before = 0

    def size(self, run: Any, size: int) -> int:
        """How many samples the next part has: few while it looks, else as many as was decided."""
        if self._over or not run.failures:
            return size
        sizer = self._fitting.sizer
        if sizer.peaks.all() or min(size, run.count - run.done) <= SAMPLES * PARTS:
            self._over = True
            return size
        self._looking, self._failures = True, run.failures
        self._before = self._fitting.gauge.used_bytes()
        self._fitting.gauge.reset_peak()
        return SAMPLES

    def done(self, run: Any) -> None:
        """After a part."""
        if not self._looking:
            return
        self._looking = False
        if run.failures > self._failures:
            self._over = True
            return
        self._parts += 1
        if self._parts == PARTS:
            self._over = True
            self._choose(self._fitting.gauge.peak_bytes())

    def _choose(self, peak: int) -> None:
        fitting, size = self._fitting, self._fitting.sizer.size
        taken = peak - self._before
        # With it the line of measured peaks knows gradients from what each sample takes.
        fitting.sizer.peaks.measured(SAMPLES, peak)
        held = fitting.gauge.used_bytes() + self._states_to_come()
        budget = LOAD_LINE * fitting.gauge.capacity_bytes() - held
        fits = max(1, math.floor(budget * SAMPLES / max(1, taken)))
        if size is not None and fits < size:
            why = f"parts of {SAMPLES} samples were measured: {size} do not fit"
            fitting.decider.note_smaller(size, fits, why, fitting.work.steps)
            fitting.decider.report_rung("smaller-microbatch", f"{why}, {fits} do.")
            fitting.sizer.set(fits)

    def _states_to_come(self) -> int:
        optimizer = self._training.optimizer
        if getattr(optimizer, "state", None):
            return 0
        trained = [p for p in self._training.gradients.parameters if p.requires_grad]
        return MOMENTS * sum(p.numel() * p.element_size() for p in trained)
