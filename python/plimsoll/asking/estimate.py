"""`plimsoll.estimate`: what a model will need on a GPU, asked before it is loaded, or of one that is here."""

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
from typing import Any, Callable

from plimsoll_trace.sources import live

from ..arguments import BadType, BadValue, function, one_of, shown, truth, whole
from ..failure import Failure
from .command import ask

# Answers the tracer of the command with the module of this process, in a fork.

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


_COUNTS = ("batch", "seq", "image", "accumulation", "lora")
_WORDS = ("precision", "optimizer", "quantization", "gpu", "method")
# Of a module that is here the process that has it sets these; the command hands none of them to a script.
_OF_THE_MODULE = ("seq", "image", "checkpointing", "quantization")


def estimate(
    model: Any = None,
    *,
    parameters: str | int | None = None,
    mode: str = "train",
    batch: Any = None,
    loss: Callable[[Any], Any] | None = None,
    seq: int | None = None,
    image: int | None = None,
    accumulation: int | None = None,
    precision: str | None = None,
    optimizer: str | None = None,
    checkpointing: bool = False,
    lora: int | None = None,
    quantization: str | None = None,
    gpu: str | None = None,
    method: str | None = None,
    hub: bool = False,
) -> dict[str, Any]:
    """The same answer as `plimsoll estimate --json`, as a dict.

        answer = plimsoll.estimate("calm3-22b", batch=1, seq=2048, accumulation=16)
        answer["peak"]["deviceBytes"], answer["recommendedQuantization"]["preset"]

    `model` is a name (`llama-3-8b`), a folder, or a `config.json`; `parameters="22b"` stands for one of which no more
    is known. What is left out is as for the command: a batch of 1, the model's own length. `hub=True` downloads
    `config.json`.

    A module that is here, on any device, is asked about as it is:

        answer = plimsoll.estimate(model, batch={"x": x, "y": y}, loss=lambda batch: mse(model(batch["x"]), batch["y"]))

    `batch` holds what the model takes; of a model of transformers the number of samples is enough, with `seq` or
    `image`. `loss` is for training where the model does not return its loss. A fork of this process runs the steps,
    with no weights in memory: the module itself stays as it is.
    """
    if model is not None and not isinstance(model, str):
        _check_module(model, batch, parameters, method, hub)
    elif loss is not None:
        raise BadValue("loss is for a module that is here", "leave loss out")
    function("loss", loss)
    one_of("mode", mode, ("train", "infer"))
    given = {
        "batch": batch,
        "seq": seq,
        "image": image,
        "accumulation": accumulation,
        "lora": lora,
        "precision": precision,
        "optimizer": optimizer,
        "quantization": quantization,
        "gpu": gpu,
        "method": method,
        "parameters": parameters,
    }
    for name in _COUNTS:
        if given[name] is not None and not (name == "batch" and _is_module(model)):
            whole(name, given[name], 1)
    for name in _WORDS:
        if given[name] is not None and not isinstance(given[name], str):
            raise BadType(f"{name} must be a word, not {shown(given[name])}", "pass a text")
    if parameters is not None and (
        isinstance(parameters, bool) or not isinstance(parameters, (str, int))
    ):
        fact = f"parameters must be a number of parameters, not {shown(parameters)}"
        raise BadType(fact, 'pass "22b", or 22_000_000_000')
    truth("checkpointing", checkpointing)
    # Models are traced with the Python that asks.
    words = ["estimate", f"--mode={mode}", f"--python={sys.executable}"]
    if _is_module(model):
        return _of_module(model, loss, {**given, "checkpointing": checkpointing}, words)
    words += [f"--{name}={value}" for name, value in given.items() if value is not None]
    if checkpointing:
        words.append("--checkpointing")
    if truth("hub", hub):
        words.append("--hub")
    if model is not None:
        # After the options: a name may begin with a dash.
        words += ["--", model]
    return ask(words)


def _is_module(model: Any) -> bool:
    torch = sys.modules.get("torch")
    return torch is not None and isinstance(model, torch.nn.Module)


def _check_module(model: Any, batch: Any, parameters: Any, method: Any, hub: Any) -> None:
    if not _is_module(model):
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


def _of_module(model: Any, loss: Any, given: dict[str, Any], words: list[str]) -> dict[str, Any]:
    from plimsoll_trace.options import OPTIMIZERS, PRECISIONS, QUANTIZATIONS
    from plimsoll_trace.sources.live import Held, arguments_of

    choices = {"precision": PRECISIONS, "optimizer": OPTIMIZERS, "quantization": QUANTIZATIONS}
    for name, known in choices.items():
        if given[name] is not None:
            one_of(name, given[name], known)
    batch, precision = given.pop("batch"), given["precision"]
    settings = {name: given.pop(name) for name in _OF_THE_MODULE}
    if isinstance(batch, int):
        settings["batch"] = batch
    cast = precision is not None and not precision.startswith("amp-")
    words += [f"--{name}={value}" for name, value in given.items() if value is not None]
    with Answering(Held(model, batch, loss, settings, cast)) as here:
        return ask([*words, "--no-cache", *arguments_of(here.path)])
