"""`plimsoll.estimate`: what a model will need on a GPU, asked before it is loaded, or of one that is here."""

from __future__ import annotations

import sys
from typing import Any, Callable

from ..arguments import BadType, BadValue, function, one_of, shown, truth, whole
from .command import ask

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

    from .living import Answering

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
