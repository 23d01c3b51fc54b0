"""`plimsoll.estimate`: what a model will need on a GPU, asked before it is loaded."""

from __future__ import annotations

import sys
from typing import Any

from ..arguments import BadType, one_of, shown, truth, whole
from .command import ask

_COUNTS = ("batch", "seq", "image", "accumulation", "lora")
_WORDS = ("precision", "optimizer", "quantization", "gpu", "method")


def estimate(
    model: str | None = None,
    *,
    parameters: str | int | None = None,
    mode: str = "train",
    batch: int | None = None,
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
    """
    if model is not None and not isinstance(model, str):
        fact = f"model must be the name or the folder of a model, not {shown(model)}"
        raise BadType(fact, 'pass "llama-3-8b", or a folder with its config.json')
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
        if given[name] is not None:
            whole(name, given[name], 1)
    for name in _WORDS:
        if given[name] is not None and not isinstance(given[name], str):
            raise BadType(f"{name} must be a word, not {shown(given[name])}", "pass a text")
    if parameters is not None and (
        isinstance(parameters, bool) or not isinstance(parameters, (str, int))
    ):
        fact = f"parameters must be a number of parameters, not {shown(parameters)}"
        raise BadType(fact, 'pass "22b", or 22_000_000_000')
    # Models are traced with the Python that asks.
    words = ["estimate", f"--mode={mode}", f"--python={sys.executable}"]
    words += [f"--{name}={value}" for name, value in given.items() if value is not None]
    if truth("checkpointing", checkpointing):
        words.append("--checkpointing")
    if truth("hub", hub):
        words.append("--hub")
    if model is not None:
        # After the options: a name may begin with a dash.
        words += ["--", model]
    return ask(words)
