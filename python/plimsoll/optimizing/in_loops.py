"""Models of transformers in a loop of the program's own: a forward that runs out of memory is made again with less.

Nothing has been written when a forward fails, so that it can be made again: first after caches were given back, then
with checkpointing and the sdpa kernel. What follows it, and backward, are the program's own.
"""

from __future__ import annotations

import functools
import logging
import sys
import threading
import weakref
from typing import Any, Callable

from ..bridge import connection, phase
from ..memory.clean_up import drop_dead_frames, give_back_caches
from ..memory.gauge import HostGauge, gauge_of
from ..memory.out_of_memory import recognise
from ..recovery.restore import RandomState, RunningStatistics
from ..recovery.rules.ladder import GIVE_BACK
from ..trainers.handled import handled_by
from ..trainers.loops import expand_segments
from . import checkpointing, precision

log = logging.getLogger("plimsoll")

CHECKPOINTING = "checkpointing"
# A call with one of these reads or keeps what a second forward would add to, or what the sdpa kernel does not give.
LEFT_ALONE = ("past_key_values", "output_attentions")

_forwards: weakref.WeakKeyDictionary[Any, Forward] = weakref.WeakKeyDictionary()
_inside = threading.local()


def install(module: Any) -> None:
    """`module` is transformers.modeling_utils. The outermost model of a call in training goes through here."""
    kind = getattr(module, "PreTrainedModel", None)
    if kind is None or hasattr(kind.__call__, "_plimsoll"):
        return
    real = kind.__call__

    @functools.wraps(real)
    def call(self: Any, *arguments: Any, **named: Any) -> Any:
        if not _is_ours(self, named):
            return real(self, *arguments, **named)
        forward = _forwards.get(self)
        if forward is None:
            forward = _forwards[self] = Forward(self)
        _inside.now = True
        try:
            return forward.make(functools.partial(real, self, *arguments, **named))
        finally:
            _inside.now = False

    call.__dict__["_plimsoll"] = True
    kind.__call__ = call


def _is_ours(model: Any, named: Any) -> bool:
    """Training in this process alone; not where a trainer, the SDK, a compiler or a CUDA graph is at work."""
    torch = sys.modules["torch"]
    if torch.compiler.is_compiling() or not model.training or not torch.is_grad_enabled():
        return False
    if getattr(_inside, "now", False) or phase.current() == phase.FORWARD:
        return False
    if any(named.get(name) for name in LEFT_ALONE):
        return False
    if torch.cuda.is_initialized() and torch.cuda.is_current_stream_capturing():
        return False
    return not (torch.distributed.is_available() and torch.distributed.is_initialized())


class Forward:
    """The forwards of one model, and what was changed in it for good."""

    def __init__(self, model: Any) -> None:
        self._model = weakref.ref(model)
        self._statistics = RunningStatistics(model)

    def make(self, forward: Callable[[], Any]) -> Any:
        random, gave_back = RandomState(), False
        self._statistics.mark()
        while True:
            try:
                return forward()
            except Exception as error:
                climb = self._next(error, gave_back)
                if climb is None:
                    raise
                drop_dead_frames(error)
            gave_back = True
            self._statistics.put_back()
            random.restore()
            give_back_caches()
            climb()

    def _next(self, error: Exception, gave_back: bool) -> Callable[[], None] | None:
        """What to do before the same forward is made again; None lets the error go on."""
        found = recognise(error, gauge_of().used_share, HostGauge().used_share)
        if found is None or handled_by() is not None:
            return None
        if not gave_back:
            _say(GIVE_BACK, "a forward ran out of memory; cached memory was given back")
            return expand_segments
        model = self._model()
        if model is None or not getattr(model, "supports_gradient_checkpointing", False):
            return None
        if getattr(model, "is_gradient_checkpointing", False):
            return None
        return functools.partial(_optimize, model)


def _optimize(model: Any) -> None:
    changes = [checkpointing.checkpoint(model)]
    if not getattr(model.config, "output_attentions", False):
        try:
            changes.append(precision.attention(model, "sdpa"))
        except (ImportError, ValueError) as error:
            # Not every architecture has it; checkpointing saves most.
            log.debug("plimsoll: the attention kernel stays as it is: %s", error)
    made = [f"{one.what}: {one.note}" for one in changes if one is not None]
    _say(CHECKPOINTING, f"a forward ran out of memory again; {'; '.join(made)}")


def _say(rung: str, why: str) -> None:
    log.warning("plimsoll: %s: %s", rung, why)
    bridge = connection.current()
    if bridge is not None:
        bridge.report_rung(rung, f"{why[0].upper()}{why[1:]}.")
