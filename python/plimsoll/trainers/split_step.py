"""Forward and backward of one batch after another, as a trainer calls them; in parts where the whole does not fit."""

from __future__ import annotations

import itertools
import logging
import sys
from typing import Any, Callable

from ..bridge import phase
from ..distributed import ranks
from ..failure import Failure
from ..memory.clean_up import give_back_caches
from ..memory.gauge import HostGauge, gauge_of
from ..memory.host import fail_before_the_kernel_does
from ..memory.out_of_memory import OutOfMemory
from ..recovery.parts import BatchRun
from ..recovery.rules.decider import Fitting
from ..recovery.steps.step import Settings, declared_rungs, settings
from ..recovery.steps.training import Microbatch, Retry, Training
from . import status
from .counting import samples_of
from .handled import handled_by
from .probing import Probe
from .window import NO_RULE, Window, WindowRun, Work

log = logging.getLogger("plimsoll")

NOT_SEPARABLE = (
    "the loss is not a mean or a sum over the samples of a batch, so parts would train another loss"
)
GROW_AFTER, PATIENCE_SECONDS = 20, 60.0

_numbers = itertools.count()


def nothing() -> None:
    """Most trainers keep nothing that a batch that is done again would count twice."""


class SplitStep:
    """What `plimsoll.recovering` is for a loop of one's own; here gradients, optimizer and loop are a trainer's."""

    def __init__(
        self, model: Any, optimizer: Any, rule_of: Callable[[Any, int, Any], str | None]
    ) -> None:
        gauge = gauge_of(model)
        if isinstance(gauge, HostGauge):
            fail_before_the_kernel_does()
        self.settings: Settings = settings(
            None, None, "auto", "mean", None, None, PATIENCE_SECONDS, None
        )
        self._rule_of = rule_of
        self._training = BorrowedTraining(model, optimizer)
        self._ranks = ranks.of(model)
        self.fitting = Fitting(
            f"trainer-{next(_numbers)}",
            gauge,
            None,
            GROW_AFTER,
            may_differ=self._ranks.sizes_may_differ,
            patience=PATIENCE_SECONDS,
        )
        status.follow(self.fitting)
        rungs = declared_rungs(model, {})
        self._retry = PoliteRetry(self._training, self.fitting, self._ranks, rungs)
        self._window = Window(model, self.settings)
        self._probe = Probe(self.fitting, self._training)
        self.fitting.work.declare(["microbatch", *rungs], self._ranks.rank, self._ranks.world)

    @property
    def gradients(self) -> Any:
        return self._training.gradients

    @property
    def partitions(self) -> list[list[int]]:
        """Sizes of the parts of each batch since the optimizer's last step."""
        return [list(run.partition) for run in self._window.runs]

    def run(self, batch: Any, work: Work, restarted: Callable[[], None] = nothing) -> Any:
        """The loss of one batch, its gradients added. `work(part, share)` does forward and backward of a part.

        `restarted` is called where the whole batch has to be done again, whatever of it had been done.
        """
        count = samples_of(batch)
        if count is None:
            return work(batch, 1)
        self._begin()
        self.fitting.sizer.begin(count)
        if self._window.is_empty:
            self.fitting.foresee(count)
            self._training.before_batch.mark()
        run = self._window.add(batch, count, work, restarted)
        while True:
            now = self._window.next()
            part = None if now is None else self._part(now)
            if now is None:
                break
            if part is not None:
                with Microbatch(self._training, self.fitting, self._retry, now, *part) as piece:
                    with self._ranks.no_sync():
                        piece.counted(now.work(piece.batch, piece.share))
                self._probe.done(now)
        phase.enter(phase.IDLE)
        self.fitting.batch_done(run)
        if self.fitting.work.bridge is None:
            status.look(self.fitting.gauge)
        return run.loss

    def reduce(self) -> None:
        """After the last batch before the optimizer's step: averages gradients over all ranks, where there are some."""
        if self._ranks.world == 1:
            return
        sizer = self.fitting.sizer
        try:
            agreed = self._ranks.reduce(self.gradients.parameters, sizer.take_wish())
        except Exception as error:
            # What needs memory comes before the ranks meet: once more, with all that can be given back.
            if self.fitting.out_of_memory(error) is None:
                self._ranks.gave_up(str(error))
                raise
            give_back_caches()
            agreed = self._ranks.reduce(self.gradients.parameters, sizer.take_wish())
        sizer.set(agreed)

    def stepped(self) -> None:
        """The optimizer has stepped: batches before it are not needed again."""
        losses = [run.loss for run in self._window.runs if run.loss is not None]
        self.fitting.work.losses = losses
        self._window.close()

    def _begin(self) -> None:
        self._retry.forget()
        self.fitting.take_growth()
        if self.gradients.are_clear():
            self._window.close()
        elif self._window.is_empty:
            self._training.foreign = True
        self._ranks.begin()

    def _part(self, run: WindowRun) -> tuple[int, int, Any, float] | None:
        size = self.fitting.sizer.size or run.count
        if size >= run.count:
            return run.part(size)
        if self._window.rule is None:
            found = self._rule_of(run.batch, run.count, self.settings.splitter)
            self._window.rule = found or NO_RULE
        if self._window.rule == NO_RULE:
            self._retry.stand_down(NOT_SEPARABLE)
            return run.part(run.count)
        return run.part(self._probe.size(run, size))


class BorrowedTraining(Training):
    """Gradients that were there before the first batch of a window cannot be made again."""

    def __init__(self, model: Any, optimizer: Any) -> None:
        super().__init__(model, optimizer, None)
        self.foreign = False

    def start_again(self, run: BatchRun) -> None:
        if self.foreign:
            raise Failure(
                "gradients-unknown",
                "memory ran out in a backward that had already added to gradients of an earlier one",
                "clear gradients after each step of the optimizer: zero_grad(set_to_none=True)",
            )
        super().start_again(run)


class PoliteRetry(Retry):
    """Leaves errors alone that the program handles itself."""

    _error: BaseException | None = None

    def decide(self, run: BatchRun, failed: int, found: OutOfMemory, where: str) -> bool:
        who = handled_by()
        if who is not None:
            log.warning("plimsoll: out of memory is left to %s", who)
            self._ranks.gave_up(found.message)
            return False
        self._error = sys.exc_info()[1]
        return super().decide(run, failed, found, where)

    def forget(self) -> None:
        self._error = None

    def stand_down(self, why: str) -> None:
        """After a failure the program's own error, with the reason in the log."""
        error, self._error = self._error, None
        if error is not None:
            log.warning("plimsoll: this step is not split: %s", why)
            self._ranks.gave_up(why)
            raise error
