"""Whether a program asks a loader for its next batch with `next`, and counts on getting one."""

from __future__ import annotations

import functools
import os
from opcode import opname
from types import CodeType, FrameType

from .rewritten import is_the_programs


def counts_on_next(frame: FrameType) -> bool:
    """Whether the frame that asks calls `next`, and nothing of the program that runs knows of an end.

    A loader that ended early would end the program there. Loops that make a new iterator at the end, or stop
    there, name `StopIteration`; a `for` does not call.
    """
    code = frame.f_code
    if "next" not in code.co_names or not _is_own(code):
        return False
    # Python 3.11 calls some functions in what goes before a call, PRECALL.
    if "CALL" not in opname[code.co_code[frame.f_lasti]]:
        return False
    around: FrameType | None = frame
    while around is not None:
        if "StopIteration" in around.f_code.co_names and _is_own(around.f_code):
            return False
        around = around.f_back
    return True


@functools.lru_cache(maxsize=4096)
def _is_own(code: CodeType) -> bool:
    return is_the_programs(os.path.abspath(code.co_filename))
