"""After the first failure: a few small parts of the batch, measured, tell what fits. By halves it would fail again."""

from __future__ import annotations

import math
from typing import Any

from ..memory.gauge import HostGauge
from ..memory.load_line import LOAD_LINE
from ..recovery.rules.decider import Fitting
from ..recovery.steps.training import Training
from .weighing import TRIED

# The first part makes the gradients; what two more take tells samples from all that is there in each part.
SIZES = (TRIED, TRIED, 2 * TRIED)
# Most optimizers keep two numbers for each parameter, made in their first step.
MOMENTS = 2
# Of what a small part takes, at least this share is its samples': a pass may end with larger temporary tensors.
LEAST_SHARE = 0.4


class Probe:
    """Its parts count as any others do: nothing is done twice, no sample is left out.

    They are as large as those that the loss was tried with: for each new size a card loads other kernels, which
    takes as long as several steps.
    """

    def __init__(self, fitting: Fitting, training: Training) -> None:
        self._fitting = fitting
        self._training = training
        # What the allocator of a card says is exact; the host's figures are too coarse for a few samples.
        self._over = isinstance(fitting.gauge, HostGauge)
        self._looking = False
        self._failures = self._before = 0
        self._peaks: list[int] = []

    def size(self, run: Any, size: int) -> int:
        """How many samples the next part has: few while it looks, else as many as was decided."""
        if self._over or not run.failures:
            return size
        known = self._fitting.sizer.peaks.all() and not self._peaks
        left = sum(SIZES[len(self._peaks) :])
        if known or size <= SIZES[-1] or run.count - run.done <= left:
            self._over = True
            return size
        self._looking, self._failures = True, run.failures
        self._before = self._fitting.gauge.used_bytes()
        self._fitting.gauge.reset_peak()
        return SIZES[len(self._peaks)]

    def done(self, run: Any) -> None:
        """After a part."""
        if not self._looking:
            return
        self._looking = False
        if run.failures > self._failures:
            self._over = True
            return
        self._peaks.append(self._fitting.gauge.peak_bytes())
        if len(self._peaks) == len(SIZES):
            self._over = True
            self._choose(*self._peaks[-2:])

    def _choose(self, small: int, large: int) -> None:
        fitting, size = self._fitting, self._fitting.sizer.size
        each = max((large - small) / TRIED, LEAST_SHARE * (large - self._before) / SIZES[-1], 1.0)
        # With these the line of measured peaks knows what each sample takes from what is there in every part.
        fitting.sizer.peaks.measured(TRIED, small)
        fitting.sizer.peaks.measured(SIZES[-1], large)
        held = large - each * SIZES[-1] + self._states_to_come()
        budget = LOAD_LINE * fitting.gauge.capacity_bytes() - held
        fits = max(1, math.floor(budget / each))
        if size is not None and fits < size:
            why = f"parts of {TRIED} and {SIZES[-1]} samples were measured: {size} do not fit"
            fitting.decider.note_smaller(size, fits, why, fitting.work.steps)
            fitting.decider.report_rung("smaller-microbatch", f"{why}, {fits} do.")
            fitting.sizer.set(fits)
        # What follows is measured without these parts: the largest of them may be above the size that was chosen.
        fitting.gauge.reset_peak()

    def _states_to_come(self) -> int:
        return states_to_come(self._training.optimizer, self._training.gradients.parameters)


def states_to_come(optimizer: Any, parameters: list[Any]) -> int:
    """What an optimizer's first step will make, in bytes; 0 where it was made."""
    if getattr(optimizer, "state", None):
        return 0
    return MOMENTS * sum(p.numel() * p.element_size() for p in parameters if p.requires_grad)
