"""Where a program was when its process crashed: a fault in C++ leaves no time for Python to say it."""

from __future__ import annotations

import contextlib
import faulthandler
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager

# Beside the trace, which a crash leaves unwritten.
_ENDING = ".crash"


def opener_in(folder: int | None) -> Callable[[str, int], int] | None:
    """For `open`: the file in a folder that was opened before, which is seen otherwise since; None for that of its
    path."""
    if folder is None:
        return None
    return lambda path, flags: os.open(os.path.basename(path), flags, 0o666, dir_fd=folder)


@contextmanager
def crashes_beside(output: str, folder: int | None = None) -> Iterator[None]:
    """While entered, a crash (SIGSEGV, SIGABRT and their kin) writes the stacks of all threads beside the output."""
    if output == "-":
        yield
        return
    path = output + _ENDING
    try:
        # Open for as long as it may crash.
        file = open(path, "w", encoding="utf-8", opener=opener_in(folder))  # noqa: SIM115
    except OSError:
        # The output itself is found to be unwritable, too, and said so.
        yield
        return
    enable, disable = faulthandler.enable, faulthandler.disable
    enable(file)
    # A program that asks for the same would have it written elsewhere.
    faulthandler.enable = lambda *_, **__: None
    faulthandler.disable = lambda: None
    try:
        yield
    finally:
        faulthandler.enable, faulthandler.disable = enable, disable
        disable()
        file.close()
        with contextlib.suppress(OSError):
            os.remove(path if folder is None else os.path.basename(path), dir_fd=folder)
