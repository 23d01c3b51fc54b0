"""A function of a batch, called in parts when the whole does not fit; the results are put together."""

from __future__ import annotations

import functools
import itertools
import logging
import time
import weakref
from typing import Any, Callable, Dict, List, Optional

from ..bridge import connection, phase
from ..memory.clean_up import drop_dead_frames, give_back_caches
from ..memory.gauge import CurrentGauge
from ..memory.out_of_memory import recognise
from .decider import Decider, wait_seconds
from .joining import join as joined
from .random_state import RandomState
from .sizer import Sizer
from .split import Splitter
from .work import Work

log = logging.getLogger("plimsoll")

# For other processes to leave a device that they fill.
PATIENCE_SECONDS = 60.0

_numbers = itertools.count()


class RecoveringFunction:
    """Calls a function with as many samples as fit. Order is kept; each sample is in one result.

    As a method each instance has sizes of its own: two models do not need the same memory.
    """

    def __init__(
        self,
        function: Callable[..., Any],
        *,
        microbatch: Optional[int] = None,
        split: Optional[Callable[[Any, int, int], Any]] = None,
        size: Optional[Callable[[Any], int]] = None,
        join: Optional[Callable[[List[Any]], Any]] = None,
        grow_after: int = 20,
    ) -> None:
        functools.update_wrapper(self, function)
        self._function = function
        self._splitter = Splitter(size, split)
        self._join = join
        self._begin = microbatch, grow_after
        self._own: Optional[Calls] = None
        self._of: "weakref.WeakKeyDictionary[Any, Calls]" = weakref.WeakKeyDictionary()

    @property
    def microbatch(self) -> Optional[int]:
        """The size of the next part; None before the first call. It can be set."""
        return self.calls().sizer.size

    @microbatch.setter
    def microbatch(self, size: Optional[int]) -> None:
        self.calls().sizer.set(size)

    @property
    def recoveries(self) -> int:
        """How often memory ran out, and the call went on."""
        return self.calls().recoveries

    @property
    def events(self) -> List[Dict[str, Any]]:
        """What happened, and why."""
        return list(self.calls().decider.events)

    def __call__(self, batch: Any, *arguments: Any, **named: Any) -> Any:
        return self.call(self.calls(), lambda part: self._function(part, *arguments, **named), batch)

    def __get__(self, instance: Any, owner: Any = None) -> Any:
        """As a method: the instance comes first, then the batch."""
        return self if instance is None else BoundFunction(self, instance)

    def __enter__(self) -> "RecoveringFunction":
        return self

    def __exit__(self, *_: Any) -> None:
        pass

    def __reduce__(self) -> str:
        # As functions are: by name, so that a process pool or a loader's worker can be given one.
        return self.__qualname__

    def calls(self, instance: Any = None) -> "Calls":
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

    def call(self, calls: "Calls", function: Callable[[Any], Any], batch: Any) -> Any:
        count = self._splitter.size(batch)
        calls.begin(count)
        before = phase.current()
        run = CallRun(count)
        parts: List[Any] = []
        while run.done < count:
            start, stop = run.done, min(count, run.done + (calls.sizer.size or count))
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
        calls.work.done(run, calls.grow)
        return parts[0] if len(parts) == 1 else self._joined(parts, run.partition)

    def _joined(self, parts: List[Any], sizes: List[int]) -> Any:
        return joined(parts, sizes) if self._join is None else self._join(parts)

    def _new_calls(self) -> "Calls":
        return Calls(getattr(self, "__name__", "function"), *self._begin)


class BoundFunction:
    """A recovering function as the method of an instance."""

    def __init__(self, function: RecoveringFunction, instance: Any) -> None:
        functools.update_wrapper(self, function._function)
        self._recovering = function
        self.__self__ = instance

    @property
    def microbatch(self) -> Optional[int]:
        return self._recovering.calls(self.__self__).sizer.size

    @property
    def recoveries(self) -> int:
        return self._recovering.calls(self.__self__).recoveries

    def __call__(self, batch: Any, *arguments: Any, **named: Any) -> Any:
        function, instance = self._recovering._function, self.__self__
        calls = self._recovering.calls(instance)
        return self._recovering.call(calls, lambda part: function(instance, part, *arguments, **named), batch)


class CallRun:
    """One call on its way through its parts."""

    def __init__(self, count: int) -> None:
        self.count = count
        self.done = self.attempt = self.failures = 0
        self.partition: List[int] = []
        self.waited = False

    def finished(self, samples: int) -> None:
        self.done += samples
        self.attempt = 0
        self.partition.append(samples)


class Calls:
    """Sizes, decisions and what the supervisor knows of one function."""

    def __init__(self, name: str, microbatch: Optional[int], grow_after: int) -> None:
        gauge = CurrentGauge()
        bridge = connection.current()
        rank = f"@{bridge.rank}" if bridge is not None and bridge.world > 1 else ""
        self.recoveries = 0
        self.gauge = gauge
        self.sizer = Sizer(microbatch, grow_after, gauge, may_differ=True)
        self.work = Work(f"{name}-{next(_numbers)}{rank}", self.sizer, gauge)
        self.decider = Decider(gauge, self.sizer.line, self.work.bridge, PATIENCE_SECONDS, self.work.who)
        if bridge is not None:
            self.work.declare(["microbatch"], bridge.rank, bridge.world)

    def begin(self, count: int) -> None:
        wanted = self.work.growth()
        if wanted is not None:
            self.decider.note_growth(self.sizer.size, wanted, "the supervisor said so", self.work.steps)
            self.sizer.grow(wanted)
        self.sizer.begin(count)

    def failed(self, run: CallRun, size: int, error: Exception) -> bool:
        """Decides; False lets the error go on."""
        found = recognise(error, self.gauge.used_share)
        if found is None:
            return False
        run.attempt += 1
        run.failures += 1
        decision = self.decider.decide(run, size, found, phase.FORWARD, [], None)
        self.decider.note(decision, size, found, phase.FORWARD, self.work.steps)
        if decision.action == "raise":
            return False
        self.recoveries += 1
        run.waited = decision.action == "wait"
        self.sizer.failed(size, min(size, decision.microbatch), run.waited, self.decider.others_hold())
        if decision.microbatch < size:
            run.attempt = 0
        return True

    def after_failure(self, run: CallRun) -> None:
        give_back_caches()
        if run.waited:
            time.sleep(wait_seconds(run.attempt))

    def grow(self, size: int, why: str) -> None:
        self.decider.note_growth(self.sizer.size, size, why, self.work.steps)
        self.decider.tell_rung("grow-back", f"{why}: {self.sizer.size} becomes {size}.")
        self.sizer.grow(size)
