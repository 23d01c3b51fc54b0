"""Where a program was when its process crashed: a fault in C++ leaves no time for Python to say it."""

from __future__ import annotations

import contextlib
import faulthandler
import os
from collections.abc import Iterator
from contextlib import contextmanager

# Beside the trace, which a crash leaves unwritten.
_ENDING = ".crash"


@contextmanager
def crashes_beside(output: str) -> Iterator[None]:
    """While entered, a crash (SIGSEGV, SIGABRT and their kin) writes the stacks of all threads beside the output."""
    if output == "-":
        yield
        return
    path = output + _ENDING
    try:
        file = open(path, "w", encoding="utf-8")  # noqa: SIM115 - open for as long as it may crash
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
            os.remove(path)
