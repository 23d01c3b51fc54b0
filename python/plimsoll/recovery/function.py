"""A function of a batch, called in parts when the whole does not fit; the results are put together."""

from __future__ import annotations

import functools
import itertools
import time
import weakref
from collections import Counter
from typing import Any, Callable

from ..bridge import connection, phase
from ..memory.clean_up import drop_dead_frames, give_back_caches
from ..memory.gauge import CurrentGauge
from .parts import Splitter
from .parts import join as joined
from .restore import RandomState
from .rules.decider import Fitting, wait_seconds
from .rules.sizes import even_part

# The calls of one function: what is left of the one that runs, and what follows when memory runs out.

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


class RecoveringFunction:
    """Calls a function with as many samples as fit. Order is kept; each sample is in one result.

    As a method each instance has sizes of its own: two models do not need the same memory.
    """

    def __init__(
        self,
        function: Callable[..., Any],
        *,
        microbatch: int | None = None,
        split: Callable[[Any, int, int], Any] | None = None,
        size: Callable[[Any], int] | None = None,
        join: Callable[[list[Any]], Any] | None = None,
        grow_after: int = 20,
    ) -> None:
        functools.update_wrapper(self, function)
        self._function = function
        self._splitter = Splitter(size, split)
        self._join = join
        self._begin = microbatch, grow_after
        self._own: Calls | None = None
        self._of: weakref.WeakKeyDictionary[Any, Calls] = weakref.WeakKeyDictionary()

    @property
    def microbatch(self) -> int | None:
        """The size of the next part; None before the first call. It can be set."""
        return self.calls().fitting.sizer.size

    @microbatch.setter
    def microbatch(self, size: int | None) -> None:
        self.calls().fitting.sizer.set(size)

    @property
    def recoveries(self) -> int:
        """How often memory ran out, and the call went on."""
        return self.calls().recoveries

    @property
    def events(self) -> list[dict[str, Any]]:
        """What happened, and why."""
        return list(self.calls().fitting.decider.events)

    def __call__(self, batch: Any, *arguments: Any, **named: Any) -> Any:
        return self.call(
            self.calls(), lambda part: self._function(part, *arguments, **named), batch
        )

    def __get__(self, instance: Any, owner: Any = None) -> Any:
        """As a method: the instance comes first, then the batch."""
        return self if instance is None else BoundFunction(self, instance)

    def __enter__(self) -> RecoveringFunction:
        return self

    def __exit__(self, *_: Any) -> None:
        pass

    def __reduce__(self) -> str:
        # As functions are: by name, so that a process pool or a loader's worker can be given one.
        return str(self.__dict__["__qualname__"])

    def calls(self, instance: Any = None) -> Calls:
        """Where the calls on an instance stand. Made when it is first needed, never on import."""
        if instance is not None:
            try:
                found = self._of.get(instance)
                if found is None:
                    found = self._of[instance] = self._new_calls()
                return found
            except TypeError:
                # It has no hash, or takes no weak references: its sizes are those of all such.
                pass
        if self._own is None:
            self._own = self._new_calls()
        return self._own

    def call(self, calls: Calls, function: Callable[[Any], Any], batch: Any) -> Any:
        count = self._splitter.size(batch)
        run = calls.begin(count)
        before = phase.current()
        parts: list[Any] = []
        while run.done < count:
            start, stop = (
                run.done,
                run.done + even_part(count - run.done, calls.fitting.sizer.size or count),
            )
            random = RandomState()
            try:
                phase.enter(phase.FORWARD)
                parts.append(function(self._splitter.part(batch, start, stop, count)))
                run.finished(stop - start)
                continue
            except Exception as error:
                if not calls.failed(run, stop - start, error):
                    raise
                drop_dead_frames(error)
            calls.after_failure(run)
            random.restore()
        phase.enter(before)
        calls.fitting.batch_done(run)
        return parts[0] if len(parts) == 1 else self._joined(parts, run.partition)

    def _joined(self, parts: list[Any], sizes: list[int]) -> Any:
        return joined(parts, sizes) if self._join is None else self._join(parts)

    def _new_calls(self) -> Calls:
        return Calls(getattr(self, "__name__", "function"), *self._begin)


class BoundFunction:
    """A recovering function as the method of an instance."""

    def __init__(self, function: RecoveringFunction, instance: Any) -> None:
        functools.update_wrapper(self, function._function)
        self._recovering = function
        self.__self__ = instance

    @property
    def microbatch(self) -> int | None:
        return self._recovering.calls(self.__self__).fitting.sizer.size

    @property
    def recoveries(self) -> int:
        return self._recovering.calls(self.__self__).recoveries

    def __call__(self, batch: Any, *arguments: Any, **named: Any) -> Any:
        function, instance = self._recovering._function, self.__self__
        calls = self._recovering.calls(instance)
        return self._recovering.call(
            calls, lambda part: function(instance, part, *arguments, **named), batch
        )
