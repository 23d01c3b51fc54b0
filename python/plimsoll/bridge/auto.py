"""Makes a process that imported torch report itself, with no change to its code."""

from __future__ import annotations

import logging
import os
import sys

from . import connection, phases_seen, uncaught
from .memory_cap import cap_cuda
from .reporter import Reporter

log = logging.getLogger("plimsoll")

# They start the ranks and hold no memory worth telling of.
LAUNCHERS = ("torch.distributed.run", "torch.distributed.launch", "accelerate.commands.launch")
LAUNCHER_PROGRAMS = ("torchrun", "accelerate", "deepspeed")

_started = None


def start(_: object = None) -> None:
    """Connects, caps memory where a cap was given, and reports twice a second. Does so once a process."""
    global _started
    if _started == os.getpid() or is_launcher():
        return
    _started = os.getpid()
    cap_cuda(sys.modules["torch"])
    bridge = connection.current()
    uncaught.install()
    if bridge is None:
        return
    phases_seen.install()
    phases_seen.tell_steps(bridge)
    Reporter(bridge).start()


def _begin_in_child() -> None:
    """A forked child that trains: threads do not come along, so it reports by a line of its own."""
    global _started
    if _started == os.getpid():
        return
    _started = os.getpid()
    try:
        bridge = connection.current()
        if bridge is not None:
            phases_seen.tell_steps(bridge)
            Reporter(bridge).start()
    except Exception as error:
        log.debug("plimsoll: a forked process does not report: %s", error)


def _after_fork() -> None:
    if _started is not None:
        phases_seen.on_first_backward = _begin_in_child


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)


def is_launcher() -> bool:
    main = sys.modules.get("__main__")
    named = getattr(getattr(main, "__spec__", None), "name", "") or ""
    # `python -m` has not made its module yet while that module's package is imported.
    words = getattr(sys, "orig_argv", sys.argv)
    by_flag = words[words.index("-m") + 1] if "-m" in words[:-1] else ""
    program = os.path.basename(sys.argv[0]) if sys.argv else ""
    return named in LAUNCHERS or by_flag in LAUNCHERS or program in LAUNCHER_PROGRAMS
