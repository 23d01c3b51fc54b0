"""What `plimsoll` chose for a model and saved: read, checked, never trusted."""

from __future__ import annotations

import hashlib
import json
import os
import re
from typing import Any

from ..failure import Failure
from .presets import PRESETS

SCHEMA = 1
# A saved choice has some hundred bytes.
LARGEST_FILE = 64 * 1024


def home_folder() -> str:
    return os.environ.get("PLIMSOLL_HOME") or os.path.join(os.path.expanduser("~"), ".plimsoll")


def model_key(model: str) -> str:
    """The file name of a model: readable, safe, and its own by a hash."""
    readable = re.sub(r"[^A-Za-z0-9._-]+", "-", model).lstrip(".-")[:80]
    digest = hashlib.sha256(model.encode()).hexdigest()[:12]
    return f"{readable}-{digest}" if readable else digest


def canonical_model(model: str) -> str:
    """One name for one model: a folder that is there by its real path, however it was written.

    `./my-model`, `my-model/` and `my-model/config.json` are the same model; anything else is a name on a hub.
    """
    folder = os.path.dirname(model) or "." if os.path.basename(model) == "config.json" else model
    return os.path.realpath(folder) if os.path.isdir(folder) else model


def saved_choice(model: str, home: str | None = None) -> dict[str, Any] | None:
    """The saved choice for a model, however its path is written; None when nothing was saved."""
    names = dict.fromkeys((canonical_model(model), model))
    return next(
        (found for found in (_choice_of(name, home) for name in names) if found is not None), None
    )


def _choice_of(model: str, home: str | None) -> dict[str, Any] | None:
    path = os.path.join(home or home_folder(), "quantization", f"{model_key(model)}.json")
    try:
        with open(path, "rb") as file:
            content = file.read(LARGEST_FILE + 1)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise _bad(path, error.strerror or str(error)) from error
    if len(content) > LARGEST_FILE:
        raise _bad(path, f"it has more than {LARGEST_FILE} bytes")
    try:
        choice = json.loads(content)
    except ValueError as error:
        raise _bad(path, "it is not JSON") from error
    wrong = _wrong(choice, model)
    if wrong:
        raise _bad(path, wrong)
    return choice


def _wrong(choice: Any, model: str) -> str:
    if not isinstance(choice, dict) or choice.get("schema") != SCHEMA:
        return f"its schema is not {SCHEMA}"
    if choice.get("model") != model:
        return "it is for another model"
    if choice.get("preset") not in PRESETS:
        return f"preset must be one of {', '.join(PRESETS)}"
    if choice.get("computeDtype") not in ("bfloat16", "float16"):
        return "computeDtype must be bfloat16 or float16"
    memory = choice.get("memory")
    sizes = (
        [*memory.get("gpuBytes", [None]), memory.get("hostBytes")]
        if isinstance(memory, dict)
        else [None]
    )
    if not all(isinstance(size, int) and size >= 0 for size in sizes):
        return "memory must hold gpuBytes, a list, and hostBytes, in whole bytes"
    return ""


def _bad(path: str, why: str) -> Failure:
    return Failure(
        "bad-quantization-file",
        f"the saved quantization {path} cannot be used: {why}",
        "delete the file, and save one again: plimsoll plan MODEL --memory 24GiB --save",
    )
