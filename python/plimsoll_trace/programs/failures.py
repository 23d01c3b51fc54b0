"""What a program raised, as one line that says where, and what to do about it."""

from __future__ import annotations

import os
import re
import sys
import traceback

import torch

from plimsoll.failure import Failure

_TORCH = os.path.dirname(os.path.abspath(torch.__file__))
_OWN = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
_MEASURE = "write a workload() for --script, or measure it: plimsoll run -- python ..."
# What PyTorch says of an op that has no kernel for meta tensors.
_NO_KERNEL = re.compile(r"(\w+::[\w.]+)")
_NEEDS_GPU = (
    "no NVIDIA driver",
    "not compiled with CUDA",
    "No CUDA GPUs",
    "CUDA driver",
    "CUDA error",
    "Torch not compiled",
)
_CUSTOM = ("triton", "data_ptr", "doesn't have storage", "no data!")


def failure_of(error: BaseException, command: list[str]) -> Failure:
    if isinstance(error, Failure):
        return error
    text = str(error).strip()
    line = text.splitlines()[0][:300] if text else "no message"
    where = _where(error)
    op = _NO_KERNEL.search(text)
    if isinstance(error, NotImplementedError) and op is not None:
        return Failure(
            "program-op-not-traced",
            f"the program uses {op[1]}, which cannot be followed without a GPU",
            _MEASURE,
            where,
        )
    if any(words in text for words in (*_NEEDS_GPU, *_CUSTOM)):
        return Failure(
            "program-needs-gpu",
            f"the program needs a real GPU: {type(error).__name__}: {line}",
            _MEASURE,
            where,
        )
    return Failure(
        "program-failed",
        f"the program failed: {type(error).__name__}: {line}",
        "if it runs without plimsoll: " + _MEASURE,
        where,
    )


def in_one_line(error: BaseException) -> str:
    """Its kind, what it says and where, as in `ValueError: no batches (train.py:12)`."""
    text = str(error).strip()
    says = f": {text.splitlines()[0][:300]}" if text else ""
    where = _where(error)
    return f"{type(error).__name__}{says}{f' ({where})' if where else ''}"


def print_as_python_does(error: BaseException) -> None:
    """The traceback of the program on its own stderr, without the lines of the tracer: `--verbose` shows it."""
    told = traceback.TracebackException.from_exception(error)
    parts: list[traceback.TracebackException | None] = [told]
    while parts:
        part = parts.pop()
        if part is not None:
            shown = [f for f in part.stack if not f.filename.startswith((_OWN, "<frozen runpy"))]
            part.stack = traceback.StackSummary.from_list(shown)
            parts += [part.__cause__, part.__context__]
    print("".join(told.format()), end="", file=sys.stderr, flush=True)


def _where(error: BaseException) -> str:
    """The line of the program itself, else of the library it called."""
    if isinstance(error, SyntaxError) and error.filename:
        return f"{error.filename}:{error.lineno}"
    frames = traceback.extract_tb(error.__traceback__)
    known = [f for f in frames if not f.filename.startswith((_OWN, _TORCH, "<"))]
    own = [
        f for f in known if "site-packages" not in f.filename and "/lib/python" not in f.filename
    ]
    chosen = own or known
    return f"{chosen[-1].filename}:{chosen[-1].lineno}" if chosen else ""
