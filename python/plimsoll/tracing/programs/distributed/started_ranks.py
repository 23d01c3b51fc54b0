"""Ranks that a program starts as processes of `multiprocessing`: the first of them runs here, the others do not.

Other processes are started as they are: they read data, or write files that the program waits for. A rank is told by
its first argument, a number, by what its function names, and by getting no queue, pipe, lock or shared value.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import suppress
from multiprocessing import process
from types import CodeType
from typing import Any

from ...standins.patches import Patches
from ..loops.rewritten import is_the_programs

_NAMED = ("cuda", "nccl", "distributed", "process_group")
# Queues, pipes, locks and shared values, those of torch.multiprocessing as well.
_SHARED = "multiprocessing."


def install(patches: Patches, saw_ranks: Callable[[int], None]) -> None:
    """`saw_ranks` is called with the number of ranks that were started so far."""

    def start(self: Any) -> None:
        rank = _rank_of(self)
        if rank is None:
            start_process(self)
            return
        saw_ranks(rank + 1)
        self._popen = _Ended()
        if rank == 0:
            # The exit of a process does not end the one that started it.
            with suppress(SystemExit):
                self.run()

    start_process = patches.set(process.BaseProcess, "start", start)


def _rank_of(started: Any) -> int | None:
    """The rank that a process would be, None where it is something else."""
    target, args = started._target, started._args
    code = getattr(target, "__code__", None)
    if code is None or not args or type(args[0]) is not int or started.daemon:
        return None
    if any(map(_is_shared, (*args, *started._kwargs.values()))):
        return None
    return args[0] if is_the_programs(code.co_filename) and _names_gpus(code) else None


def _is_shared(given: Any) -> bool:
    return any(kind.__module__.startswith(_SHARED) for kind in type(given).__mro__)


def _names_gpus(code: CodeType) -> bool:
    texts = (*code.co_names, *(text for text in code.co_consts if isinstance(text, str)))
    return any(word in text.lower() for text in texts for word in _NAMED)


class _Ended:
    """A process that ended well, as `multiprocessing` asks one."""

    returncode = 0

    def __init__(self) -> None:
        self.pid = os.getpid()

    def poll(self, *_: Any) -> int:
        return 0

    def wait(self, timeout: float | None = None) -> int:
        return 0

    def terminate(self) -> None: ...

    kill = close = terminate
