"""Programs that handle out-of-memory themselves: seen on the stack when memory runs out, and left alone."""

from __future__ import annotations

import sys
from types import FrameType

# Who catches the error further up, by the end of the file's name and the function that catches.
CATCHERS = (
    ("accelerate/utils/memory.py", "decorator", "accelerate's find_executable_batch_size"),
    ("tuner/batch_size_scaling.py", "_run_power_scaling", "Lightning's BatchSizeFinder"),
    ("tuner/batch_size_scaling.py", "_run_binary_scaling", "Lightning's BatchSizeFinder"),
    ("tuner/batch_size_scaling.py", "_run_binsearch_scaling", "Lightning's BatchSizeFinder"),
)
# Deeper stacks are recursion of the program; the catcher would be found before that.
DEEPEST = 2000


def handled_by() -> str | None:
    """Who further up the stack waits for this error to try another batch size; None where nothing does."""
    frame: FrameType | None = sys._getframe(1)
    for _ in range(DEEPEST):
        if frame is None:
            return None
        code = frame.f_code
        for file, function, who in CATCHERS:
            if code.co_name == function and code.co_filename.replace("\\", "/").endswith(file):
                return who
        frame = frame.f_back
    return None
