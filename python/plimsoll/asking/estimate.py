"""`plimsoll.estimate`: what a model will need on a GPU, asked before it is loaded, or of one that is here."""

from __future__ import annotations

import sys
from typing import Any, Callable

from ..arguments import BadType, BadValue, function, named, one_of, shown, truth, whole
from .answers import Estimate
from .command import ask
from .own_module import check_module, estimate_of_module, is_module

# The names that trainers and other tools have for the same arguments.
NAMES = {
    "batch_size": "batch",
    "per_device_train_batch_size": "batch",
    "card": "gpu",
    "device": "gpu",
    "dtype": "precision",
    "torch_dtype": "precision",
    "mixed_precision": "precision",
    "gradient_accumulation_steps": "accumulation",
    "gradient_checkpointing": "checkpointing",
    "image_size": "image",
    "lora_rank": "lora",
    "max_length": "seq",
    "max_seq_length": "seq",
    "seq_len": "seq",
    "seq_length": "seq",
    "sequence_length": "seq",
    "model_name": "model",
    "optim": "optimizer",
    "preset": "quantization",
}
_COUNTS = ("batch", "seq", "image", "accumulation", "lora", "gpus")
_WORDS = ("precision", "optimizer", "quantization", "gpu", "method")


@named(NAMES)
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
) -> Estimate:
    """How much memory a model needs: the answer of `plimsoll estimate --json`.

        answer = plimsoll.estimate("calm3-22b", batch=1, seq=2048, accumulation=16, gpu="h100")
        answer.peak.device_bytes, answer.fits("80GiB"), answer.breakdown, answer.to_dict()

    The answer is also a dict with the keys of the JSON document: `answer["peak"]["deviceBytes"]`.

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
        check_module(model, batch, parameters, method, hub)
    elif loss is not None:
        raise BadValue("loss is for a module that is here", "leave loss out")
    function("loss", loss)
    given = checked(
        mode,
        _counted=not is_module(model),
        batch=batch,
        seq=seq,
        image=image,
        accumulation=accumulation,
        lora=lora,
        precision=precision,
        optimizer=optimizer,
        quantization=quantization,
        gpu=gpu,
        method=method,
    )
    if parameters is not None and (
        isinstance(parameters, bool) or not isinstance(parameters, (str, int))
    ):
        fact = f"parameters must be a number of parameters, not {shown(parameters)}"
        raise BadType(fact, 'pass "22b", or 22_000_000_000')
    if parameters is not None:
        given["parameters"] = parameters
    truth("checkpointing", checkpointing)
    # Models are traced with the Python that asks.
    words = ["estimate", f"--mode={mode}", f"--python={sys.executable}"]
    if is_module(model):
        return estimate_of_module(model, loss, {**given, "checkpointing": checkpointing}, words)
    words += [f"--{name}={value}" for name, value in given.items()]
    if checkpointing:
        words.append("--checkpointing")
    if truth("hub", hub):
        words.append("--hub")
    if model is not None:
        # After the options: a name may begin with a dash.
        words += ["--", model]
    return Estimate(ask(words))


def checked(mode: str, _counted: bool = True, **given: Any) -> dict[str, Any]:
    """The arguments that were given, each of its kind."""
    one_of("mode", mode, ("train", "infer"))
    found = {name: value for name, value in given.items() if value is not None}
    for name in _COUNTS:
        if name in found and (_counted or name != "batch"):
            whole(name, found[name], 1)
    for name in _WORDS:
        if name in found and not isinstance(found[name], str):
            raise BadType(f"{name} must be a word, not {shown(found[name])}", "pass a text")
    return found
