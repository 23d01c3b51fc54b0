"""A workload from a Python file of the user's that defines `workload(**args)`."""

from __future__ import annotations

import inspect
import json
import os
import runpy
import sys
import traceback
from typing import Any, Callable

import torch

from plimsoll.failure import Failure

from ..gpu import Gpu
from ..optimizers import trained
from ..standins.cuda_names import on_meta
from ..workload import Settings, Workload
from .hugging_face import default_dtype, first_line

_NEEDS_GPU = (
    "no NVIDIA driver",
    "not compiled with CUDA",
    "No CUDA GPUs",
    "CUDA driver",
    "CUDA error",
)
_KNOWN = ("model", "batch", "loss", "optimizer")
_TORCH = os.path.dirname(os.path.abspath(torch.__file__))
_OWN = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))


# The optimizer that a script's workload returns: itself, its class, or a function of the parameters.


def optimizer_of(given: Any, model: Any, path: str) -> Any:
    """The optimizer to step with; made for the parameters that learn, where it is not made yet."""
    parameters = trained(model)
    if _is_optimizer(given) and not isinstance(given, type):
        _check_parameters(given, parameters, path)
        made = given
    elif callable(given):
        made = given(parameters)
    else:
        raise _bad_optimizer(f"workload()['optimizer'] is a {type(given).__name__}", path)
    if not _is_optimizer(made):
        raise _bad_optimizer(f"workload()['optimizer'] makes a {type(made).__name__}", path)
    _check_step(made, path)
    return made


def _is_optimizer(value: Any) -> bool:
    return callable(getattr(value, "step", None)) and callable(getattr(value, "zero_grad", None))


def _check_parameters(optimizer: Any, parameters: Any, path: str) -> None:
    """One that was made before the model changed would step nothing, and cost nothing."""
    held = {id(p) for group in getattr(optimizer, "param_groups", []) for p in group["params"]}
    if not any(id(p) in held for p in parameters):
        raise Failure(
            "script-bad-optimizer",
            "the optimizer holds none of the parameters that are trained",
            "return a function instead: optimizer=lambda parameters: ...",
            path,
        )


def _check_step(optimizer: Any, path: str) -> None:
    try:
        asked = inspect.signature(optimizer.step).parameters.values()
    except (TypeError, ValueError):
        return
    plain = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.POSITIONAL_ONLY)
    if any(p.kind in plain and p.default is inspect.Parameter.empty for p in asked):
        raise Failure(
            "script-bad-optimizer",
            f"{type(optimizer).__name__} calls the loss itself (a closure), which a trace cannot follow",
            "leave the optimizer out of what workload() returns",
            path,
        )


def _bad_optimizer(fact: str, path: str) -> Failure:
    return Failure(
        "script-bad-optimizer",
        f"{fact}, not an optimizer",
        "return an optimizer, its class, or a function of the parameters that makes one",
        path,
    )


def load(path: str, arguments: list[str], settings: Settings) -> Workload:
    if not os.path.isfile(path):
        raise Failure("script-missing", f"there is no file {path}", "check the path of --script")
    given = parse(arguments)
    folder = os.path.dirname(os.path.abspath(path))
    sys.path.insert(0, folder)
    try:
        with default_dtype(settings.dtype), torch.device("meta"):
            names = _run(
                lambda: runpy.run_path(path, run_name="plimsoll_workload"), path, settings.gpu
            )
            make = names.get("workload")
            if not callable(make):
                raise Failure(
                    "script-no-workload",
                    f"{path} does not define a function workload",
                    "define workload(**args)",
                )
            made = _run(
                lambda: make(**{**_settings_for(make, settings), **given}), path, settings.gpu
            )
    finally:
        sys.path.remove(folder)
    return _workload(made, path, settings)


def parse(arguments: list[str]) -> dict[str, Any]:
    """`k=v` pairs; numbers, true, false and null as in JSON, all else as text."""
    values = {}
    for argument in arguments:
        name, equals, text = argument.partition("=")
        if not equals or not name.isidentifier():
            raise Failure(
                "bad-argument", f"--arg {argument!r} is not name=value", "write --arg batch=8"
            )
        try:
            values[name] = json.loads(text)
        except ValueError:
            values[name] = text
    return values


def _settings_for(make: Callable, settings: Settings) -> dict[str, Any]:
    """What the trace was asked for, where workload has a parameter of that name and no default."""
    known = {"batch": settings.batch, "seq": settings.seq, "image": settings.image}
    try:
        parameters = inspect.signature(make).parameters
    except (TypeError, ValueError):
        return {}
    return {
        name: value
        for name, value in known.items()
        if value and name in parameters and parameters[name].default is inspect.Parameter.empty
    }


def _workload(made: Any, path: str, settings: Settings) -> Workload:
    if not isinstance(made, dict) or "model" not in made or "batch" not in made:
        raise Failure(
            "script-bad-workload",
            f"workload() returns {_shape(made)}, not dict(model=..., batch=..., loss=...)",
            "return a dict with model, batch and loss(model, batch)",
            path,
        )
    model, batch = made["model"], made["batch"]
    loss: Any = made.get("loss")
    if not isinstance(model, torch.nn.Module):
        raise Failure(
            "script-bad-workload",
            f"workload()['model'] is a {type(model).__name__}, not a torch.nn.Module",
            "return the model itself",
            path,
        )
    elsewhere = {p.device.type for p in model.parameters()} - {"meta"}
    if elsewhere:
        raise Failure(
            "script-other-device",
            f"the model's parameters are on {elsewhere.pop()}, not on the device that is current",
            "build the model without naming a device, or name cuda",
            path,
        )
    if settings.training and not callable(loss):
        raise Failure(
            "script-no-loss",
            "workload() returns no loss to train with",
            "add loss=lambda model, batch: ...",
            path,
        )
    model.train(settings.training)

    def next_batch():
        if not callable(batch):
            return batch
        with torch.device("meta"):
            return _run(batch, path, settings.gpu)

    def run(module, given):
        if not settings.training:
            return _run(lambda: call_with(module, given), path, settings.gpu)
        result = _run(lambda: loss(module, given), path, settings.gpu)
        first = result[0] if isinstance(result, (tuple, list)) and result else result
        if not isinstance(first, torch.Tensor) or first.numel() != 1:
            raise Failure(
                "script-bad-loss",
                f"loss(model, batch) returns {_shape(first)}, not one number in a tensor",
                "return the loss itself, or a tuple that begins with it",
                path,
            )
        return result

    optimizer, notes = made.get("optimizer"), _unused(made)
    if optimizer is None:
        return Workload(model, next_batch, run, notes=notes)

    def own(trained: Any) -> Any:
        return _run(lambda: optimizer_of(optimizer, trained, path), path, settings.gpu)

    return Workload(model, next_batch, run, optimizer=own, notes=notes)


def _unused(made: dict[str, Any]) -> list[str]:
    """What a workload returns and a trace does not look at must not seem to count."""
    names = sorted(str(name)[:60] for name in made if name not in _KNOWN)
    return (
        ["workload() returns {}, which a trace does not use".format(", ".join(names))]
        if names
        else []
    )


def _shape(value: Any) -> str:
    if isinstance(value, torch.Tensor):
        return f"a tensor of shape {tuple(value.shape)}"
    return "nothing" if value is None else f"a {type(value).__name__}"


def call_with(model: Any, batch: Any) -> Any:
    if isinstance(batch, dict):
        return model(**batch)
    if not isinstance(batch, (tuple, list)):
        return model(batch)
    return model(*batch[: _positions(model)])


def _positions(model: Any) -> int | None:
    """How many values the model takes in their order; labels after them are for the loss alone."""
    try:
        parameters = inspect.signature(model.forward).parameters.values()
    except (TypeError, ValueError):
        return None
    if any(p.kind is p.VAR_POSITIONAL for p in parameters):
        return None
    return sum(p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD) for p in parameters)


def _run(action: Callable[[], Any], path: str, gpu: Gpu) -> Any:
    """Runs the user's code; what it raises becomes one line that says where."""
    try:
        # Only the user's code may name CUDA: PyTorch's own would then look for a real one.
        with on_meta(gpu):
            return action()
    except Failure:
        raise
    except BaseException as error:
        if isinstance(error, KeyboardInterrupt):
            raise
        raise failure_of(error, path) from error


def failure_of(error: BaseException, path: str) -> Failure:
    text = first_line(error)
    fact = (
        type(error).__name__ if text == type(error).__name__ else f"{type(error).__name__}: {text}"
    )
    if any(words in str(error) for words in _NEEDS_GPU):
        return Failure(
            "script-needs-gpu",
            f"it needs a GPU: {fact}",
            "leave that call out of the workload; a trace has no GPU",
            _where(error, path),
        )
    return Failure("script-failed", fact, "fix the line named", _where(error, path))


def _where(error: BaseException, path: str) -> str:
    if isinstance(error, SyntaxError) and error.filename:
        return f"{error.filename}:{error.lineno}"
    frames = traceback.extract_tb(error.__traceback__)
    own = [f for f in frames if os.path.abspath(f.filename) == os.path.abspath(path)]
    own = own or [f for f in frames if not f.filename.startswith((_OWN, _TORCH, "<"))]
    return f"{own[-1].filename}:{own[-1].lineno}" if own else path
