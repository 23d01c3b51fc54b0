"""`python -m plimsoll_trace`: what a PyTorch job asks CUDA's allocator for, found without a GPU.

Runs a few steps of the real model on the meta device, with no weights in memory, and writes each
allocation and free as a JSON line. Errors are one JSON line too, with exit status 2 (bad input) or
3 (a package is missing); PLIMSOLL_DEBUG shows the traceback instead.
"""

from __future__ import annotations

import contextlib
import faulthandler
import json
import os
import platform
import sys
import time
from argparse import Namespace
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from plimsoll.failure import MISSING_PACKAGE, Failure
from plimsoll.progress import report_progress

from .imports.fewer import hash_by_place
from .options import VIEW, parse
from .programs.files.dependencies import print_state
from .programs.files.view import View, cache_of_data_sets, enter
from .programs.start import end_with_parent, require_program
from .sources import live

# Where a program was when its process crashed: a fault in C++ leaves no time for Python to say it.

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


VERSION = 1
# The first with every kernel that a trace puts in CUDA's place.
OLDEST_TORCH = (2, 6)


def main(argv: list[str] | None = None, alone: bool = False) -> int:
    """`alone`: in a process that runs this one trace and nothing else."""
    arguments = sys.argv[1:] if argv is None else argv
    try:
        if arguments == ["--warm"]:
            from .warm import serve

            return serve(main)
        if arguments == ["--state"]:
            return print_state()
        options = parse(arguments)
        if options.program is not None:
            require_program(options.program)
        place = live.socket_of(options.script, options.arg)
        if place is not None:
            return live.hand_over(place, arguments)
        if options.scratch is not None:
            # Whose folder it is, that one waits for the trace.
            end_with_parent()
        if not alone:
            return run(options)
        from .imports.fewer import fewer_imports

        with fewer_imports(options):
            return run(options, alone)
    except Failure as failure:
        if os.environ.get("PLIMSOLL_DEBUG"):
            raise
        print(json.dumps(failure.as_json()))
        return failure.status


def run(options: Namespace, alone: bool = False) -> int:
    started = time.monotonic()
    report_progress("import", 0, options.steps)
    # Before torch, whose threads could not follow.
    folder = _folder_of_output(options)
    view = _view_for(options)
    hash_by_place()
    try:
        if alone:
            _import_alone()
        import torch
    except ImportError as error:
        raise Failure(
            "torch-missing",
            f"torch is not installed for this Python ({sys.executable})",
            "pip install torch, or name a Python that has it",
            status=MISSING_PACKAGE,
        ) from error
    _require(torch.__version__)
    from .record import record

    with _own_output(options.program is not None), crashes_beside(options.output, folder):
        recording = record(options, view)
    facts, ledger = recording.facts, recording.ledger
    facts.maybe_more_bytes += ledger.larger_at_most
    facts.maybe_less_bytes = ledger.loose_at_peak
    header = {
        "plimsoll": "trace",
        "version": VERSION,
        "torch": torch.__version__,
        "transformers": getattr(sys.modules.get("transformers"), "__version__", None),
        "python": platform.python_version(),
        "workload": {
            name: value
            for name, value in vars(options).items()
            if name not in ("output", "scratch", "protection")
        },
    }
    footer: dict[str, Any] = {
        "end": True,
        "allocations": recording.ledger.count,
        "parameters": recording.parameters,
        "parameterBytes": recording.parameter_bytes,
        "seconds": round(time.monotonic() - started, 3),
        "notes": recording.notes,
        **facts.as_json(),
        "files": recording.files,
    }
    if recording.parallel is not None:
        parallel = recording.parallel
        footer["parallel"] = {
            "way": parallel.way,
            "gpus": parallel.gpus,
            "nodes": parallel.nodes,
            "tensorParallel": parallel.tp,
        }
    if options.output == "-":
        recording.ledger.write(sys.stdout, header, footer)
        return 0
    try:
        with open(options.output, "w", encoding="utf-8", opener=opener_in(folder)) as file:
            recording.ledger.write(file, header, footer)
    except OSError as error:
        raise Failure(
            "output-unwritable",
            f"{options.output}: {error.strerror}",
            "name another --output",
        ) from error
    return 0


def _folder_of_output(options: Namespace) -> int | None:
    """What a trace says of a program is no file of the program; the scratch folder is there for both."""
    if options.program is None or options.scratch is not None or options.output == "-":
        return None
    try:
        return os.open(os.path.dirname(options.output) or os.curdir, os.O_RDONLY)
    except OSError:
        # Said when it is written.
        return None


def _view_for(options: Namespace) -> View | None:
    if options.program is None or options.protection not in (None, VIEW):
        return None
    view = enter(options.scratch, [cache_of_data_sets()])
    if view is None and options.protection == VIEW:
        raise Failure(
            "protection-missing",
            "this machine does not allow a view of the files of its own",
            "leave that option out: the best that works here is taken",
            status=MISSING_PACKAGE,
        )
    return view


@contextmanager
def _own_output(apart: bool) -> Iterator[None]:
    """Keeps standard output for the last line of a trace; what a program prints goes to stderr."""
    if not apart:
        yield
        return
    sys.stdout.flush()
    kept = os.dup(1)
    os.dup2(2, 1)
    try:
        yield
    finally:
        sys.stdout.flush()
        os.dup2(kept, 1)
        os.close(kept)


def _import_alone() -> None:
    from .imports.fewer import import_models, uncollected

    with uncollected():
        import torch

        _require(torch.__version__)
        import_models()
        from . import record  # noqa: F401 - all of ours


def _require(version: str) -> None:
    numbers = tuple(int(part) for part in version.split(".")[:2])
    if numbers < OLDEST_TORCH:
        raise Failure(
            "torch-too-old",
            f"torch {version} is older than {'.'.join(map(str, OLDEST_TORCH))}",
            "update torch, or name another Python",
            status=MISSING_PACKAGE,
        )


if __name__ == "__main__":
    # A program may import what it likes, and decides by itself about garbage.
    status = main(alone="--program" not in sys.argv)
    sys.stdout.flush()
    if "--program" in sys.argv:
        # Threads that a program left would be waited for.
        os._exit(status)
    sys.exit(status)
