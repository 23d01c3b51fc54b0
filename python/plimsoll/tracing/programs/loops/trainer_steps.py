"""Steps of transformers' `Trainer`, with what a program's own callbacks hold them against.

`if state.global_step == 500: unfreeze()` in a callback would be left out with the batches that are alike. So the
number of a step says to the loop over batches what a program holds it against.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import Any

from ...standins.patches import Patches
from ..watch import Watch
from .batch_loops import BatchLoop, Number
from .rewritten import is_the_programs

_STEP = "global_step"
# Evaluation and saving that would come after thousands of steps come after so many.
_STEPS_BEFORE = 3


class SeenStep(int):
    """The number of a step, as a program's own files have it."""

    number: Number | None = None

    def of(self, number: Number | None) -> SeenStep:
        self.number = number
        return self

    def _sees(self, goal: Any, modulo: int = 0) -> None:
        if self.number is not None and type(goal) is int:
            self.number.looked(int(self), goal, modulo)

    def __eq__(self, other: object) -> bool:
        self._sees(other)
        return int(self) == other

    def __ne__(self, other: object) -> bool:
        return not self == other

    def __lt__(self, other: Any) -> bool:
        self._sees(other)
        return int(self) < other

    def __le__(self, other: Any) -> bool:
        self._sees(other)
        return int(self) <= other

    def __gt__(self, other: Any) -> bool:
        self._sees(other)
        return int(self) > other

    def __ge__(self, other: Any) -> bool:
        self._sees(other)
        return int(self) >= other

    def __mod__(self, other: Any) -> Any:
        if type(other) is int and other > 0:
            self._sees(0, other)
        return int(self) % other

    def __add__(self, other: Any) -> Any:
        result = int(self) + other
        return SeenStep(result).of(self.number) if type(other) is int else result

    __hash__ = int.__hash__


class StepLoop(BatchLoop):
    """One epoch of a Trainer. Its numbers are led on only to what the program holds them against."""

    def __init__(self, watch: Watch, state: Any) -> None:
        super().__init__(watch)
        self._state = state
        self._ends = False

    def leads(self, left: int) -> int | None:
        step, last = int(self._state.global_step), int(self._state.max_steps)
        skipped = super().leads(min(left, last - step) if last > 0 else left)
        self._ends = skipped is None
        return skipped

    def leaves_out(self, turns: int) -> None:
        if not self._ends:
            super().leaves_out(turns)


class _Batches:
    """An epoch's batches, one turn of the loop for each."""

    def __init__(self, batches: Iterator[Any], loop: StepLoop, state: Any) -> None:
        self._batches = batches
        self._loop = loop
        self._state = state

    def __next__(self) -> Any:
        with self._loop.asking():
            batch = next(self._batches)
        self._state.global_step = self._loop.begins_turn(_STEP, int(self._state.global_step))
        return batch


def install(patches: Patches, watch: Watch, module: Any) -> None:
    """Into `transformers.trainer`."""
    state_kind, get_batch_samples = module.TrainerState, module.Trainer.get_batch_samples
    # The epoch that runs.
    running: dict[str, Any] = {"batches": None, "loop": None}

    def batch_samples(self: Any, batches: Any, *args: Any, **kwargs: Any) -> Any:
        if running["batches"] is not batches:
            running.update(batches=batches, loop=StepLoop(watch, self.state))
        turns = _Batches(batches, running["loop"], self.state)
        return get_batch_samples(self, turns, *args, **kwargs)

    def global_step(self: Any) -> int:
        step = self.__dict__[_STEP]
        if running["loop"] is None or not is_the_programs(sys._getframe(1).f_code.co_filename):
            return step
        return SeenStep(step).of(running["loop"].number(_STEP))

    def set_global_step(self: Any, step: int) -> None:
        self.__dict__[_STEP] = int(step)

    on_step_end = module.DefaultFlowCallback.on_step_end

    def ended_step(self: Any, args: Any, state: Any, control: Any, **kwargs: Any) -> Any:
        control = on_step_end(self, args, state, control, **kwargs)
        if int(state.global_step) == _STEPS_BEFORE:
            loop = running["loop"]
            steps = _steps_of_epoch(args, state, kwargs.get("train_dataloader"))
            # Where batches differ, what the allocator holds by then depends on how many came before.
            waits = watch.observer.differ or (loop and loop.number(_STEP).is_held_against())

            def comes_early(strategy: Any, every: Any) -> bool:
                return strategy == "steps" and not (waits and _is_met(loop, state, every, steps))

            control.should_evaluate |= comes_early(args.eval_strategy, state.eval_steps)
            control.should_save |= comes_early(args.save_strategy, state.save_steps)
        return control

    patches.set(module.DefaultFlowCallback, "on_step_end", ended_step)
    patches.set(module.Trainer, "get_batch_samples", batch_samples)
    patches.set(state_kind, _STEP, property(global_step, set_global_step))


def _steps_of_epoch(args: Any, state: Any, loader: Any) -> int:
    try:
        steps = len(loader) // args.gradient_accumulation_steps
    except TypeError:
        return 0
    return min(steps, int(state.max_steps)) if int(state.max_steps) > 0 else steps


def _is_met(loop: StepLoop | None, state: Any, every: Any, steps: int) -> bool:
    """Whether what is done every so many steps can come at its own time, which the steps are then led to."""
    if loop is None or not isinstance(every, (int, float)) or not 0 < every <= steps:
        return False
    loop.number(_STEP).looked(int(state.global_step), 0, int(every))
    return True
