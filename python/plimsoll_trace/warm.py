"""A tracer that stays: everything is imported once, and each question gets a fork of its own.

Questions come as JSON lines on standard input: `{"id": 1, "args": [...], "stdout": path, "stderr":
path, "temporary": folder}`. Answers go to standard output: `{"ready": true}` once, then for each
question `{"id": 1, "pid": 7}` when it starts and `{"id": 1, "status": 0, "signal": null}` when it is
over. The process itself runs no model, so that one question cannot change the next. It ends with its
input, and takes with it what still runs.
"""

from __future__ import annotations

import importlib
import json
import os
import selectors
import signal
import sys
import tempfile
import traceback
from typing import Any, Callable

# Imported in advance where they are installed; a trace imports what else it needs.
_MODULES = (
    "torch._dynamo",
    "transformers.modeling_utils",
    "transformers.models.auto",
    "torchvision",
)
# One question is a few hundred characters.
_MAX_CHARACTERS = 1 << 20


def serve(run: Callable[[list[str]], int]) -> int:
    """Answers with `run`, which gets the arguments of a trace and returns its exit status."""
    from . import record  # noqa: F401 - imports torch and all of ours

    for name in _MODULES:
        try:
            importlib.import_module(name)
        except ImportError:
            continue
    return _Server(run).serve()


class _Server:
    def __init__(self, run: Callable[[list[str]], int]):
        self.run = run
        # Ids of the questions that run, by process.
        self.running: dict[int, int] = {}

    def serve(self) -> int:
        woken, wakes = os.pipe()
        os.set_blocking(woken, False)
        os.set_blocking(wakes, False)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        signal.set_wakeup_fd(wakes, warn_on_full_buffer=False)
        selector = selectors.DefaultSelector()
        selector.register(0, selectors.EVENT_READ)
        selector.register(woken, selectors.EVENT_READ)
        _send({"ready": True})
        rest = b""
        while True:
            for key, _ in selector.select():
                if key.fd == woken:
                    os.read(woken, 4096)
                    continue
                text = os.read(0, 65536)
                *lines, rest = (rest + text).split(b"\n")
                for line in lines:
                    self.start(json.loads(line))
                if not text or len(rest) > _MAX_CHARACTERS:
                    self.stop()
                    return 0
            self.collect()

    def start(self, question: dict[str, Any]) -> None:
        sys.stdout.flush()
        pid = os.fork()
        if pid == 0:
            answer(self.run, question)
        _own_group(pid)
        self.running[pid] = question["id"]
        _send({"id": question["id"], "pid": pid})

    def collect(self) -> None:
        while self.running:
            pid, status = os.waitpid(-1, os.WNOHANG)
            if pid == 0:
                return
            ident = self.running.pop(pid, None)
            if ident is None:
                continue
            by = signal.Signals(os.WTERMSIG(status)).name if os.WIFSIGNALED(status) else None
            code = os.WEXITSTATUS(status) if by is None else None
            _send({"id": ident, "status": code, "signal": by})

    def stop(self) -> None:
        for pid in self.running:
            try:
                os.killpg(pid, signal.SIGKILL)
            except OSError:
                continue


def _own_group(pid: int) -> None:
    """A group of its own, so that what a model starts can be ended with it. Parent and fork both make
    it: whichever comes first, it is there before anyone is told of the process."""
    try:
        os.setpgid(pid, pid)
    except OSError:
        # It ended already.
        return


def answer(run: Callable[[list[str]], int], question: dict[str, Any]) -> None:
    """In the fork: never returns."""
    status = 1
    try:
        _own_group(0)
        signal.set_wakeup_fd(-1)
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        _close_inherited()
        _redirect(question["stdout"], question["stderr"])
        for name in ("TMPDIR", "TEMP", "TMP"):
            os.environ[name] = question["temporary"]
        tempfile.tempdir = None
        status = run([str(argument) for argument in question["args"]])
    except BaseException:
        traceback.print_exc()
    finally:
        try:
            sys.stdout.flush()
            sys.stderr.flush()
        finally:
            os._exit(status)


def _close_inherited() -> None:
    """The pipes to the client stay with the process that answers it."""
    for name in (
        os.listdir("/proc/self/fd") if os.path.isdir("/proc/self/fd") else map(str, range(3, 256))
    ):
        if int(name) > 2:
            try:
                os.close(int(name))
            except OSError:
                continue


def _redirect(stdout: str, stderr: str) -> None:
    for target, path, flags in (
        (0, os.devnull, os.O_RDONLY),
        (1, stdout, os.O_WRONLY | os.O_CREAT | os.O_TRUNC),
        (2, stderr, os.O_WRONLY | os.O_CREAT | os.O_TRUNC),
    ):
        opened = os.open(path, flags, 0o600)
        os.dup2(opened, target)
        if opened != target:
            os.close(opened)


def _send(message: dict[str, Any]) -> None:
    sys.stdout.write(json.dumps(message, separators=(",", ":")) + "\n")
    sys.stdout.flush()
