"""Loops of a program's own: the optimizer's first step makes its states, and is tried again when they do not fit."""

from __future__ import annotations

import functools
import os
import sys
import weakref
from typing import Any, Callable

# Segments that grow where they are: what is free in unlike pieces can serve one large request.
EXPANDABLE = "expandable_segments"
SETTINGS = ("PYTORCH_ALLOC_CONF", "PYTORCH_CUDA_ALLOC_CONF")

_stepped: weakref.WeakSet[Any] = weakref.WeakSet()


def install(_: Any = None) -> None:
    """Every optimizer that is made from now on has a first step that is guarded; later ones cost nothing."""
    kind: Any = sys.modules["torch"].optim.Optimizer
    real = getattr(kind, "profile_hook_step", None)
    if real is None or hasattr(real, "_plimsoll"):
        return

    @functools.wraps(real)
    def profile_hook_step(step: Callable[..., Any]) -> Callable[..., Any]:
        hooked = real(step)

        @functools.wraps(hooked)
        def guarded(self: Any, *arguments: Any, **named: Any) -> Any:
            if self in _stepped or not _may_be_guarded(self):
                return hooked(self, *arguments, **named)
            return _first_step(self, functools.partial(hooked, self), arguments, named)

        # A compiler takes the hook off by this name, and must find the step itself.
        guarded.__dict__["__wrapped__"] = step
        return guarded

    profile_hook_step.__dict__["_plimsoll"] = True
    kind.profile_hook_step = staticmethod(profile_hook_step)


def _may_be_guarded(optimizer: Any) -> bool:
    """Not where a trainer or the SDK does it, nor where a second try would meet other ranks or a graph."""
    from ..recovery.restore import is_guarded, is_of_torch
    from .optimizer_retry import may_be_retried

    torch = sys.modules["torch"]
    _stepped.add(optimizer)
    if is_guarded(optimizer) or optimizer.state or not may_be_retried(optimizer):
        return False
    if torch.cuda.is_initialized() and torch.cuda.is_current_stream_capturing():
        return False
    alone = not (torch.distributed.is_available() and torch.distributed.is_initialized())
    return alone or is_of_torch(optimizer)


def _first_step(optimizer: Any, real: Any, arguments: Any, named: Any) -> Any:
    from .one_line import retry_of

    return retry_of(optimizer, expand_segments).method(real)(*arguments, **named)


def expand_segments() -> None:
    """From now on, for a card, unless the program's own settings say something about it."""
    torch = sys.modules["torch"]
    given = next((os.environ[name] for name in SETTINGS if os.environ.get(name)), "")
    change = getattr(torch._C, "_accelerator_setAllocatorSettings", None)
    if change is None or EXPANDABLE in given or not torch.cuda.is_initialized():
        return
    try:
        # All settings are read anew: those that were given are given again.
        change(",".join([*([given] if given else []), f"{EXPANDABLE}:True"]))
    except (RuntimeError, ValueError):
        # Not on this platform: the memory that was given back has to do.
        pass
