"""A module of this process, asked about as it is: the tracer of the command gets it in a fork."""

from __future__ import annotations

import contextlib
import json
import os
import select
import signal
import socket
import sys
import tempfile
import threading
import time
from typing import Any

from plimsoll_trace.sources import live

from ..arguments import BadType, BadValue, one_of, shown, whole
from ..failure import Failure
from .answers import Estimate
from .command import ask

# The process that has the module sets these; the command hands none of them to a script.
_OF_THE_MODULE = ("seq", "image", "checkpointing", "quantization")
# One question is a few hundred characters.
_LONGEST_QUESTION = 1 << 20
_LOOK_SECONDS = 0.05


def is_module(model: Any) -> bool:
    torch = sys.modules.get("torch")
    return torch is not None and isinstance(model, torch.nn.Module)


def check_module(model: Any, batch: Any, parameters: Any, method: Any, hub: Any) -> None:
    if not is_module(model):
        fact = f"model must be the name or the folder of a model, or a torch.nn.Module; not {shown(model)}"
        raise BadType(fact, 'pass "llama-3-8b", a folder with its config.json, or the model itself')
    for name, value in (("parameters", parameters), ("hub", hub or None)):
        if value is not None:
            raise BadValue(f"{name} is for a model that is not here", f"leave {name} out")
    if method not in (None, "auto", "trace"):
        fact = f"a module that is here can only be traced; method is {shown(method)}"
        raise BadValue(fact, "leave method out")
    counted = isinstance(batch, int) and not isinstance(batch, bool)
    if counted and hasattr(model, "config") and hasattr(model, "main_input_name"):
        whole("batch", batch, 1)
    elif batch is None or counted:
        fact = f"batch must hold what {type(model).__name__} takes, not {shown(batch)}"
        raise BadType(fact, "pass a batch as the model takes it: a tensor, a tuple or a dict")


def estimate_of_module(model: Any, loss: Any, given: dict[str, Any], words: list[str]) -> Estimate:
    from plimsoll_trace.options import OPTIMIZERS, PRECISIONS, QUANTIZATIONS

    choices = {"precision": PRECISIONS, "optimizer": OPTIMIZERS, "quantization": QUANTIZATIONS}
    for name, known in choices.items():
        if name in given:
            one_of(name, given[name], known)
    batch, precision = given.pop("batch"), given.get("precision")
    settings = {name: given.pop(name, None) for name in _OF_THE_MODULE}
    if isinstance(batch, int):
        settings["batch"] = batch
    cast = precision is not None and not precision.startswith("amp-")
    words += [f"--{name}={value}" for name, value in given.items()]
    with Answering(live.Held(model, batch, loss, settings, cast)) as here:
        return Estimate(ask([*words, "--no-cache", *live.arguments_of(here.path)]))


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

        from plimsoll_trace import __main__
        from plimsoll_trace.options import parse

        live.held = held
        # Threads of OpenMP did not come along.
        torch.set_num_threads(1)
        options = parse(arguments)
        for name, value in held.settings.items():
            setattr(options, name, value)
        try:
            return __main__.run(options)
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
