"""Other Python programs that a program starts: they run as they are, and are not traced.

One that trains would run here for hours, without a GPU: each gets so many seconds of a processor.
"""

from __future__ import annotations

import inspect
import os
import re
import resource
import shlex
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from multiprocessing import util as processes
from typing import Any

from plimsoll.failure import Failure

from ..standins.patches import Patches
from .files import started
from .files.overlay import Overlay

# What to say of a program that put nothing on the GPU: where it chose the CPU, and how it would choose the GPU.

# In an argument, a word of its own: `--device cpu`, `--no_cuda`, `--device=cpu`, `use_cpu=True`.
_CHOSEN = re.compile(r"(?:^|[^a-z])(?:cpu|no[-_]?(?:cuda|gpu))(?:[^a-z]|$)", re.IGNORECASE)
# An option of `argparse` or `click` that is about the device.
_OPTION = re.compile(
    r"""(?:add_argument|option)\([^)]*?["'](--[\w-]*(?:device|cuda|gpu|cpu)[\w-]*)["']"""
)
_MAX_BYTES = 1 << 20


def failure_without_gpu(command: list[str], computed: bool) -> Failure:
    """computed: whether it computed anything with PyTorch.

    >>> failure_without_gpu(["train.py", "--device", "cpu"], True).next
    'change or leave out the argument "--device cpu"'
    """
    if not computed:
        return Failure(
            "program-without-gpu",
            "a GPU is simulated here, and the program ended and put nothing on it",
            "check its arguments: it ended before it computed anything with PyTorch",
        )
    return Failure(
        "program-without-gpu",
        "a GPU is simulated here (torch.cuda.is_available() is True), and the program chose the CPU: "
        "it put nothing on the GPU",
        _how_to_choose(command),
    )


def _how_to_choose(command: list[str]) -> str:
    for at, word in enumerate(command[1:], 1):
        if _CHOSEN.search(word):
            option = command[at - 1] if at > 1 and word[:1] != "-" else ""
            said = f"{option} {word}" if option.startswith("-") else word
            return f'change or leave out the argument "{said}"'
    source = _source(command)
    declared = _OPTION.search(source)
    if declared:
        value = " cuda" if declared[1].endswith("device") else ""
        return f"give the option by which it chooses the GPU: {declared[1]}{value}"
    name = os.path.basename(command[0]) if command[0] != "-m" else command[1]
    if "cuda" in source:
        return f'see where {name} sets its device: the model and each batch go to "cuda"'
    return (
        f'write in {name}: device = "cuda" if torch.cuda.is_available() else "cpu", and .to(device) '
        "for the model and for each batch"
    )


def _source(command: list[str]) -> str:
    try:
        with open(command[0], encoding="utf-8", errors="replace") as file:
            return file.read(_MAX_BYTES)
    except OSError:
        return ""


_LAUNCHERS = ("python", "torchrun", "accelerate", "deepspeed")
# Enough to prepare data.
_SECONDS = 120
WRITE_FOR_REAL = (
    "This machine does not let the trace keep files apart: other programs that the program started wrote their files "
    "for real"
)


class Children:
    def __init__(self, overlay: Overlay) -> None:
        self._overlay = overlay
        self.started: list[str] = []
        self._processes: list[Any] = []
        self.notes: set[str] = set()

    def install(self, patches: Patches) -> None:
        start = subprocess.Popen.__init__
        form = inspect.signature(start)

        def __init__(process: Any, args: Any, *rest: Any, **options: Any) -> None:
            bound = form.bind(process, args, *rest, **options)
            if not self._overlay.by_kernel:
                self._share_files(bound.arguments)
            command = _python_command(args)
            if command is None:
                start(*bound.args, **bound.kwargs)
                return
            self.started.append(command)
            self._processes.append(process)
            with _seconds_of_a_processor():
                start(*bound.args, **bound.kwargs)

        patches.set(subprocess.Popen, "__init__", __init__)
        if not self._overlay.by_kernel:
            self._share_with_spawned(patches)

        def system(command: Any) -> int:
            code = subprocess.call(command, shell=True)
            return -code if code < 0 else code << 8

        patches.set(os, "system", system)

    def _share_files(self, given: dict[str, Any]) -> None:
        args, folder = given["args"], given.get("cwd")
        given["env"] = started.environment(self._overlay, given.get("env"))
        if isinstance(args, (list, tuple)) and args and _is_python(args[0]):
            given["args"] = started.python_command(self._overlay, list(args), folder)
        else:
            self.notes.add(WRITE_FOR_REAL)
            given["args"] = started.other_command(self._overlay, args, folder)
            given["cwd"] = started.other_folder(self._overlay, folder)

    def _share_with_spawned(self, patches: Patches) -> None:
        """Processes of `multiprocessing` that are not forked are started with the variables of this one."""
        start = processes.spawnv_passfds

        def spawnv_passfds(path: Any, args: Any, passfds: Any) -> int:
            before = {name: os.environ.get(name) for name in started.VARIABLES}
            os.environ.update(started.environment(self._overlay, None))
            try:
                return start(path, args, passfds)
            finally:
                for name, value in before.items():
                    if value is None:
                        os.environ.pop(name, None)
                    else:
                        os.environ[name] = value

        patches.set(processes, "spawnv_passfds", spawnv_passfds)

    def check(self, program: list[str], uses_gpu: bool, computed: bool) -> None:
        """A program that put nothing on the GPU has no answer."""
        if uses_gpu:
            return
        raise self._failure() if self.started else failure_without_gpu(program, computed)

    def explain(self, failure: Failure, uses_gpu: bool) -> Failure:
        """What to say of a program that failed: perhaps only because another did that it had started."""
        failed = any(getattr(process, "returncode", None) for process in self._processes)
        return self._failure() if failed and not uses_gpu else failure

    def _failure(self) -> Failure:
        return Failure(
            "program-starts-others",
            f"the program used no GPU itself; it started: {self.started[-1]}",
            "estimate that command instead",
        )


def _is_python(word: Any) -> bool:
    return os.path.basename(os.fsdecode(word)).startswith("python")


def _python_command(args: Any) -> str | None:
    try:
        words = shlex.split(args) if isinstance(args, str) else [os.fsdecode(word) for word in args]
    except (TypeError, ValueError):
        return None
    if words and os.path.basename(words[0]).startswith(_LAUNCHERS):
        return shlex.join(words)[:200]
    return None


@contextmanager
def _seconds_of_a_processor() -> Iterator[None]:
    """A limit that is passed on to what is started meanwhile; here it is not reached."""
    soft, hard = resource.getrlimit(resource.RLIMIT_CPU)
    used = resource.getrusage(resource.RUSAGE_SELF)
    limit = int(used.ru_utime + used.ru_stime) + _SECONDS
    lower = soft == resource.RLIM_INFINITY or limit < soft
    with suppress(ValueError, OSError):
        if lower:
            resource.setrlimit(resource.RLIMIT_CPU, (limit, hard))
    try:
        yield
    finally:
        with suppress(ValueError, OSError):
            resource.setrlimit(resource.RLIMIT_CPU, (soft, hard))
