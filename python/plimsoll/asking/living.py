"""Answers the tracer of the command with the module of this process, in a fork."""

from __future__ import annotations

import contextlib
import json
import os
import select
import signal
import socket
import tempfile
import threading
import time
from typing import Any

from plimsoll_trace.sources import live

from ..failure import Failure

# One question is a few hundred characters.
_LONGEST_QUESTION = 1 << 20
_LOOK_SECONDS = 0.05


class Answering:
    """While entered, a socket at `path` takes questions; each is traced in a fork of this process."""

    def __init__(self, held: live.Held) -> None:
        if not hasattr(os, "fork"):
            fact = "a module that is alive is traced in a fork, which this system does not have"
            raise Failure("no-fork", fact, "write a workload() for plimsoll estimate --script")
        self._held = held
        self._folder = tempfile.TemporaryDirectory(prefix="plimsoll-live-")
        self.path = os.path.join(self._folder.name, "socket")
        self._socket = socket.socket(socket.AF_UNIX)
        self._closing = threading.Event()
        self._thread = threading.Thread(target=self._serve, name="plimsoll-live", daemon=True)

    def __enter__(self) -> Answering:
        self._socket.bind(self.path)
        self._socket.listen()
        self._thread.start()
        return self

    def __exit__(self, *_: Any) -> None:
        self._closing.set()
        self._thread.join()
        self._socket.close()
        self._folder.cleanup()

    def _serve(self) -> None:
        while not self._closing.is_set():
            if select.select([self._socket], [], [], _LOOK_SECONDS)[0]:
                connection, _ = self._socket.accept()
                with connection, contextlib.suppress(OSError, ValueError):
                    self._answer(connection)

    def _answer(self, connection: socket.socket) -> None:
        text = b""
        while not text.endswith(b"\n") and len(text) < _LONGEST_QUESTION:
            piece = connection.recv(65536)
            if not piece:
                return
            text += piece
        question = json.loads(text)
        pid = os.fork()
        if pid == 0:
            _trace(question, self._held)
        status = self._ended(pid, connection)
        if status is not None:
            connection.sendall(json.dumps({"status": status}).encode())

    def _ended(self, pid: int, connection: socket.socket) -> int | None:
        """The status of a fork; None where nobody waits for it any more."""
        while True:
            ended, status = os.waitpid(pid, os.WNOHANG)
            if ended:
                return os.waitstatus_to_exitcode(status)
            # What waits says nothing more: it can only go away.
            gone = bool(select.select([connection], [], [], 0)[0])
            if gone or self._closing.is_set():
                os.kill(pid, signal.SIGKILL)
                os.waitpid(pid, 0)
                return None
            time.sleep(_LOOK_SECONDS)


def _trace(question: dict[str, Any], held: live.Held) -> None:
    """In the fork: never returns."""
    from plimsoll_trace.warm import answer

    def run(arguments: list[str]) -> int:
        import torch

        from plimsoll_trace import __main__ as trace
        from plimsoll_trace.options import parse

        live.held = held
        # Threads of OpenMP did not come along.
        torch.set_num_threads(1)
        options = parse(arguments)
        for name, value in held.settings.items():
            setattr(options, name, value)
        try:
            return trace.run(options)
        except Failure as failure:
            print(json.dumps(_explained(failure).as_json()))
            return failure.status

    answer(run, question)


def _explained(failure: Failure) -> Failure:
    if "fork-based multiprocessing" not in failure.fact:
        return failure
    return Failure(
        "backward-before",
        "a backward ran in this process, and the threads that PyTorch started for a card are in no fork",
        "ask before the first backward, or in a fresh process",
    )
