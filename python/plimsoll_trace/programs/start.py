"""Starting a program as Python would; without torch, so that a wrong path is told before anything that is missing."""

from __future__ import annotations

import ctypes
import gc
import os
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from plimsoll.failure import Failure

# Forks of the traced process, which work for it on another core.

# Of Linux: the signal that a process gets when its parent ends.
_PARENT_ENDS = 1


def belong_to(parent: int) -> None:
    """In a fork: it ends with the process that it was forked from, however that ends."""
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_DFL)
    end_with_parent()
    if os.getppid() != parent:
        os._exit(0)


def end_with_parent() -> None:
    """However it ends: nothing that nobody waits for goes on."""
    with suppress(OSError, AttributeError):
        ctypes.CDLL(None).prctl(_PARENT_ENDS, signal.SIGKILL)


def end(pid: int) -> None:
    """Leaves nothing running, also where a program has asked that its children are not waited for."""
    with suppress(OSError):
        os.kill(pid, signal.SIGKILL)
    with suppress(OSError):
        os.waitpid(pid, 0)


def require_program(command: list[str]) -> None:
    """`train.py`, or a folder with a `__main__.py`, has to be there; a module is looked for by Python."""
    start = command[0] if command else ""
    if start == "-m" or os.path.isfile(start) or os.path.isfile(os.path.join(start, "__main__.py")):
        return
    raise Failure("program-missing", f"there is no file {start}", "check the path of the program")


@contextmanager
def as_main(command: list[str]) -> Iterator[None]:
    """The program's own arguments, and its folder first on the path, as Python would start it."""
    require_program(command)
    arguments, path, main = sys.argv, list(sys.path), sys.modules.get("__main__")
    if command[0] == "-m":
        sys.argv = [command[1], *command[2:]]
        sys.path.insert(0, os.getcwd())
    else:
        sys.argv = list(command)
        folder = command[0] if os.path.isdir(command[0]) else os.path.dirname(command[0])
        sys.path.insert(0, os.path.abspath(folder))
    try:
        yield
    finally:
        sys.argv, sys.path[:] = arguments, path
        if main is not None:
            sys.modules["__main__"] = main
        gc.collect()
