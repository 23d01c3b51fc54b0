"""A workload from a Python file of the user's that defines `workload(**args)`."""

from __future__ import annotations

import json
import os
import runpy
import sys
import traceback
from typing import Any, Dict, List

import torch

from ...failure import Failure
from ..workload import Settings, Workload


def load(path: str, arguments: List[str], settings: Settings) -> Workload:
    if not os.path.isfile(path):
        raise Failure("script-missing", "there is no file %s" % path, "check the path of --script")
    before = torch.get_default_dtype()
    torch.set_default_dtype(settings.dtype)
    folder = os.path.dirname(os.path.abspath(path))
    sys.path.insert(0, folder)
    try:
        with torch.device("meta"):
            names = _run(lambda: runpy.run_path(path, run_name="plimsoll_workload"), path)
            make = names.get("workload")
            if not callable(make):
                raise Failure(
                    "script-no-workload", "%s defines no function workload" % path, "define workload(**args)"
                )
            made = _run(lambda: make(**parse(arguments)), path)
    finally:
        sys.path.remove(folder)
        torch.set_default_dtype(before)
    return _workload(made, path, settings)


def parse(arguments: List[str]) -> Dict[str, Any]:
    """`k=v` pairs; numbers, true, false and null as in JSON, all else as text."""
    values = {}
    for argument in arguments:
        name, equals, text = argument.partition("=")
        if not equals or not name.isidentifier():
            raise Failure("bad-argument", "--arg %r is not name=value" % argument, "write --arg batch=8")
        try:
            values[name] = json.loads(text)
        except ValueError:
            values[name] = text
    return values


def _workload(made: Any, path: str, settings: Settings) -> Workload:
    if not isinstance(made, dict) or "model" not in made or "batch" not in made:
        raise Failure(
            "script-bad-workload",
            "workload() must return dict(model=..., batch=..., loss=...)",
            "see the docs",
            path,
        )
    model, batch, loss = made["model"], made["batch"], made.get("loss")
    if not isinstance(model, torch.nn.Module):
        raise Failure(
            "script-bad-workload",
            "workload()['model'] is not a torch.nn.Module",
            "return the model itself",
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
            return _run(batch, path)

    def run(module, given):
        return _run(lambda: loss(module, given) if settings.training else _call(module, given), path)

    return Workload(model, next_batch, run)


def _call(model: Any, batch: Any) -> Any:
    if isinstance(batch, dict):
        return model(**batch)
    return model(*batch) if isinstance(batch, (tuple, list)) else model(batch)


def _run(action, path: str) -> Any:
    """Runs the user's code; what it raises becomes one line that says where."""
    try:
        return action()
    except Failure:
        raise
    except BaseException as error:
        if isinstance(error, KeyboardInterrupt):
            raise
        text = str(error).strip().splitlines()
        fact = "%s: %s" % (type(error).__name__, text[0][:300] if text else "no message")
        raise Failure(
            "script-failed", fact, "run it on a GPU or fix the line named", _where(error, path)
        ) from error


def _where(error: BaseException, path: str) -> str:
    frames = traceback.extract_tb(error.__traceback__)
    own = [f for f in frames if os.path.abspath(f.filename) == os.path.abspath(path)] or frames
    return "%s:%s" % (own[-1].filename, own[-1].lineno) if own else path
