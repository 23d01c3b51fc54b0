"""Any function of a batch, run in parts when the whole does not fit; the results are put together."""

from __future__ import annotations

import functools
import logging
from collections.abc import Mapping
from typing import Any, Callable, Dict, List, Optional

from ..memory.clean_up import drop_dead_frames, give_back_caches
from ..memory.gauge import gauge_of
from ..memory.out_of_memory import recognise
from .ladder import decide
from .random_state import RandomState
from .sizes import LOAD_LINE, Growth, PeakLine
from .split import Splitter

log = logging.getLogger("plimsoll")


class RecoveringFunction:
    """Calls a function with as many samples as fit. Order is kept; each sample is in one result."""

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
        self.microbatch = microbatch
        self._whole = microbatch is None
        self.recoveries = 0
        self._function = function
        self._splitter = Splitter(size, split)
        self._join = join
        self._line = PeakLine()
        self._growth = Growth(grow_after)

    def __call__(self, batch: Any, *arguments: Any, **named: Any) -> Any:
        count = self._splitter.size(batch)
        if self._whole or self.microbatch is None:
            self.microbatch = count
        gauge = gauge_of()
        parts: List[Any] = []
        sizes: List[int] = []
        done = attempt = failures = 0
        while done < count:
            stop = min(count, done + self.microbatch)
            random = RandomState()
            try:
                parts.append(self._function(self._splitter.part(batch, done, stop, count), *arguments, **named))
                sizes.append(stop - done)
                done, attempt = stop, 0
                continue
            except Exception as error:
                found = recognise(error, gauge.used_share)
                attempt += 1
                limit = LOAD_LINE * gauge.capacity_bytes() if found else 0
                decision = found and decide(stop - done, self._line, limit, attempt, False, [], False)
                if decision is None or decision.action == "raise":
                    raise
                log.warning("plimsoll: out of memory (%s) with %d samples: %s", found.kind, stop - done, decision.why)
                drop_dead_frames(error)
            give_back_caches()
            random.restore()
            failures += 1
            self.recoveries += 1
            self._growth.failed(stop - done)
            self.microbatch, self._whole = decision.microbatch, False
        if not failures:
            grown = self._growth.clean_step(self.microbatch, count, self._line, 0)
            self._whole = self._whole or (grown or 0) >= count
            self.microbatch = grown or self.microbatch
        return parts[0] if len(parts) == 1 else (self._join or (lambda all_parts: join(all_parts, sizes)))(parts)

    def __get__(self, instance: Any, owner: Any = None) -> Any:
        """As a method: the instance comes first, then the batch."""
        if instance is None:
            return self
        bound = instance.__dict__.get(f"_plimsoll_{self.__name__}")
        if bound is None:
            bound = RecoveringFunction(functools.partial(self._function, instance), microbatch=self.microbatch)
            bound._splitter, bound._join = self._splitter, self._join
            instance.__dict__[f"_plimsoll_{self.__name__}"] = bound
        return bound


def join(parts: List[Any], sizes: List[int]) -> Any:
    """Results of the parts as one: tensors and lists end to end, numbers by their mean over samples."""
    first = parts[0]
    if first is None:
        return None
    shape = getattr(first, "shape", None)
    if shape is not None and len(shape) > 0:
        import sys

        module = sys.modules["torch"] if hasattr(first, "requires_grad") else sys.modules["numpy"]
        return module.cat(parts) if hasattr(first, "requires_grad") else module.concatenate(parts)
    if isinstance(first, Mapping):
        joined: Dict[Any, Any] = {key: join([part[key] for part in parts], sizes) for key in first}
        return type(first)(**joined) if hasattr(first, "to_tuple") else joined
    if isinstance(first, list):
        return [value for part in parts for value in part]
    if isinstance(first, tuple):
        return tuple(join([part[i] for part in parts], sizes) for i in range(len(first)))
    if isinstance(first, (int, float)) or shape is not None:
        return sum(part * size for part, size in zip(parts, sizes)) / sum(sizes)
    raise TypeError(f"results of type {type(first).__name__} cannot be put together; pass join=lambda parts: ...")
