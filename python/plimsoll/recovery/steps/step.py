"""A training step that survives running out of memory."""

from __future__ import annotations

import inspect
import itertools
from collections.abc import Iterator
from contextlib import AbstractContextManager, nullcontext
from functools import partial
from typing import Any, Callable, NamedTuple

from ...arguments import BadValue, function, one_of
from ...bridge import phase
from ...distributed import ranks
from ...failure import Failure
from ...memory.clean_up import drop_dead_frames, give_back_caches
from ...memory.gauge import HostGauge, gauge_of
from ...memory.host import fail_before_the_kernel_does
from ..parts import BatchRun, Share, Splitter, check_share
from ..restore import OptimizerGuard
from ..rules.decider import Fitting
from ..rules.ladder import GIVE_BACK, HOOKS, Decision
from .training import Microbatch, Retry, Training

# The optimizer's step on the gradients of a whole batch: once, however often memory runs out in it.

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


# What can be set about a recovering step.


class Settings(NamedTuple):
    splitter: Splitter
    share: Share
    reduction: str
    clip: float | None
    autocast: Any
    patience: float
    rungs: dict[str, Callable[[], Any]]


def settings(
    size: Any,
    split: Any,
    share: Share,
    reduction: str,
    clip: float | None,
    autocast: Any,
    patience: float,
    rungs: Any,
) -> Settings:
    check_share(share)
    one_of("reduction", reduction, ("mean", "sum"))
    unknown = set(rungs or {}) - set(HOOKS)
    if unknown:
        fact = f"there is no rung called {', '.join(sorted(map(str, unknown)))}"
        raise BadValue(fact, f"use {', '.join(HOOKS)}")
    return Settings(
        Splitter(size, split), share, reduction, clip, autocast, patience, dict(rungs or {})
    )


# Optimizers that look at the loss more than once a step (LBFGS): each look is a batch of microbatches.


def needs_closure(optimizer: Any) -> bool:
    """Whether its step cannot be made without a function that computes the loss again."""
    try:
        closure = inspect.signature(optimizer.step).parameters.get("closure")
    except (TypeError, ValueError):
        return False
    return closure is not None and closure.default is inspect.Parameter.empty


def check_closure(optimizer: Any, scaler: Any, world: int) -> bool:
    if not needs_closure(optimizer):
        return False
    name = type(optimizer).__name__
    if scaler is not None or world > 1:
        what = "a GradScaler" if scaler is not None else "several ranks"
        raise Failure(
            "closure-unsupported",
            f"{name} computes the loss more than once a step, which cannot be combined with {what}",
            "use an optimizer that steps on gradients alone",
        )
    return True


class Closure:
    """The first look is the batch that was just done; each later one runs all its microbatches again."""

    def __init__(self, loss: Any, look_again: Callable[[], Any]) -> None:
        self._loss = loss
        self._look_again = look_again
        self._looked = False

    def __call__(self) -> Any:
        if not self._looked:
            self._looked = True
            return self._loss
        return self._look_again()


# What a program gives a step: the value of its loss, and what else to try.


def loss_of(value: Any) -> Any:
    """The loss in what a loss function returned: itself, or the `loss` of a Hugging Face output."""
    if hasattr(value, "backward"):
        return value
    if getattr(value, "loss", None) is not None:
        return value.loss
    if isinstance(value, dict) and "loss" in value:
        return value["loss"]
    if isinstance(value, tuple) and value and hasattr(value[0], "backward"):
        return value[0]
    raise Failure(
        "no-loss",
        f"the loss is a {type(value).__name__}, not a tensor",
        "return the mean loss of the batch",
    )


def declared_rungs(model: Any, given: dict[str, Callable[[], Any]]) -> dict[str, Callable[[], Any]]:
    """The program's own, and checkpointing where the model knows how: it changes no result."""
    inner = getattr(model, "module", model)
    if "checkpointing" in given or not getattr(inner, "supports_gradient_checkpointing", False):
        return dict(given)
    if getattr(inner, "is_gradient_checkpointing", False) or not hasattr(
        inner, "gradient_checkpointing_enable"
    ):
        return dict(given)
    return {"checkpointing": inner.gradient_checkpointing_enable, **given}


# All ranks make their steps in the same order, so the same number means the same step.
_numbers = itertools.count()


def autocasting(dtype: Any, device: str) -> AbstractContextManager[Any]:
    """Autocast around the loss of a microbatch, where the program asked for it."""
    if dtype is None:
        return nullcontext()
    import torch

    return torch.autocast("cuda" if device.startswith("cuda") else "cpu", dtype=dtype)


class RecoveringStep:
    """Runs a batch as microbatches, clips and steps once. Made by `plimsoll.recovering`."""

    def __init__(
        self,
        model: Any,
        optimizer: Any,
        loss: Callable[[Any], Any] | None = None,
        *,
        microbatch: int | None = None,
        clip: float | None = None,
        scaler: Any = None,
        autocast: Any = None,
        share: Any = "auto",
        reduction: str = "mean",
        split: Callable[[Any, int, int], Any] | None = None,
        size: Callable[[Any], int] | None = None,
        backup: str = "first",
        grow_after: int = 20,
        patience: float = 60.0,
        rungs: dict[str, Callable[[], Any]] | None = None,
    ) -> None:
        self.model = model
        self.optimizer = optimizer
        self.partition: list[int] = []
        self._loss = loss
        self._settings: Settings = settings(
            size, split, share, reduction, clip, autocast, patience, rungs
        )
        self._training = Training(model, optimizer, scaler)
        self._gauge = gauge_of(model)
        # A copy in the host's memory is cheap where the weights lie there, and slow where they lie on a card.
        on_host = isinstance(self._gauge, HostGauge)
        self._guard = OptimizerGuard(optimizer, backup, None if on_host else self._room)
        if on_host:
            fail_before_the_kernel_does()
        climbable = declared_rungs(model, self._settings.rungs)
        self._ranks = ranks.of(model)
        self._needs_closure = check_closure(optimizer, self._training.scaler, self._ranks.world)
        self._fitting = Fitting(
            f"step-{next(_numbers)}",
            self._gauge,
            microbatch,
            grow_after,
            may_differ=self._ranks.sizes_may_differ,
            patience=self._settings.patience,
        )
        self.events = self._fitting.decider.events
        self._retry = Retry(self._training, self._fitting, self._ranks, climbable)
        self._optimizer_step = OptimizerStep(
            self._training, self._guard, self._settings.clip, self._ranks, self._fitting
        )
        self._fitting.work.declare(["microbatch", *climbable], self._ranks.rank, self._ranks.world)
        self._training.before_batch.warn()

    @property
    def steps(self) -> int:
        """Steps that were made."""
        return self._fitting.work.steps

    @property
    def microbatch(self) -> int | None:
        """The size of the next microbatch; None before the first batch. It can be set."""
        return self._fitting.sizer.size

    @microbatch.setter
    def microbatch(self, size: int | None) -> None:
        self._fitting.sizer.set(size)

    def __call__(self, batch: Any, loss: Callable[[Any], Any] | None = None) -> Any:
        """One step on one batch; the batch's loss, detached. Without a loss yet, takes it (a decorator)."""
        use = function("loss", loss) or self._loss
        if use is None:
            if callable(batch):
                self._loss = batch
                return self
            raise Failure(
                "no-loss",
                "this step has no loss",
                "pass loss=lambda batch: ..., or decorate one",
            )
        run = self._begin(batch)
        look_again = partial(self._look_again, run, use) if self._needs_closure else None
        while True:
            self._evaluate(run, use)
            if self._finish(run, look_again):
                return run.loss

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
                raise Failure(
                    "microbatch-unused",
                    "a microbatch was not entered",
                    "write: with microbatch: ...",
                )

    def __enter__(self) -> RecoveringStep:
        return self

    def __exit__(self, *_: Any) -> None:
        self.close()

    def close(self) -> None:
        """Says goodbye to the other ranks. Gradients, model and optimizer are left as they are."""
        self._ranks.close()

    def report(self) -> dict[str, Any]:
        """What happened so far: sizes, recoveries and why, and the line of measured peaks."""
        return self._fitting.report()

    def _room(self) -> int:
        return self._gauge.capacity_bytes() - self._gauge.used_bytes()

    # One batch, from its first microbatch to the optimizer's step.

    def _begin(self, batch: Any) -> BatchRun:
        self._guard.check()
        self._fitting.take_growth()
        count = self._settings.splitter.size(batch)
        self._training.gradients.clear()
        # Without gradients: what is used now is what steps rest at.
        self._fitting.sizer.begin(count)
        self._fitting.foresee(count)
        self._training.before_batch.mark()
        self._ranks.begin()
        return BatchRun(batch, count, self._settings, self.model)

    def _next(self, run: BatchRun) -> Microbatch | None:
        part = run.part(self._fitting.sizer.size or run.count)
        return (
            None
            if part is None
            else Microbatch(self._training, self._fitting, self._retry, run, *part)
        )

    def _evaluate(self, run: BatchRun, loss: Callable[[Any], Any]) -> None:
        """The loss and the gradients of what is left of a batch."""
        while True:
            piece = self._next(run)
            if piece is None:
                return
            with piece, self._ranks.no_sync():
                self._forward_and_backward(piece, loss)

    def _forward_and_backward(self, piece: Microbatch, loss: Callable[[Any], Any]) -> None:
        """A frame of its own: it has ended when the error arrives, and is cleared with all that it held."""
        with autocasting(self._settings.autocast, self._gauge.device):
            value = loss_of(loss(piece.batch))
        piece.backward(value)

    def _finish(self, run: BatchRun, look_again: Callable[[], Any] | None = None) -> bool:
        """The optimizer's step; False where the batch has to be done again."""
        phase.enter(phase.STEP)
        if not self._optimizer_step.make(run, look_again):
            return False
        self._training.gradients.clear()
        self.partition = run.partition
        self._fitting.work.losses = [] if run.loss is None else [run.loss]
        phase.enter(phase.IDLE)
        self._fitting.batch_done(run)
        return True

    def _look_again(self, run: BatchRun, loss: Callable[[Any], Any]) -> Any:
        """The batch's loss and gradients once more, in the midst of the optimizer's step."""
        self._training.gradients.clear()
        again = BatchRun(run.batch, run.count, self._settings, self.model)
        self._evaluate(again, loss)
        self._optimizer_step.clip(again)
        return again.loss
