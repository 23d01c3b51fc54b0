"""Libraries that spread a model and are not traced: an error that names the way, which can be asked for instead."""

from __future__ import annotations

import json
import os
from typing import Any, Callable

from plimsoll.failure import Failure

from ...standins.imports import when_imported
from ...standins.patches import Patches

# What stage of ZeRO is which --parallel; without a stage DeepSpeed copies the whole model.
_OF_STAGE = {0: "ddp", 1: "zero1", 2: "zero2", 3: "zero3"}
# accelerate's own, where neither an option nor a file says one.
_STAGE_OF_ACCELERATE = 2
# A file of settings has some kilobytes; a larger one is not read.
_LARGEST_SETTINGS = 2**20


def sharded_by(library: str, way: str | None) -> Failure:
    instead = "" if way is None else f', or ask "plimsoll estimate MODEL --gpus N --parallel {way}"'
    measure = "measure it on its GPUs (plimsoll run -- torchrun ...)"
    return Failure(
        "program-sharded",
        f"the program spreads its model with {library}, which is not traced",
        measure + instead,
    )


def refuse_launcher(options: Any) -> None:
    """Ends where the options of `accelerate launch` ask for such a library."""
    if getattr(options, "use_deepspeed", False):
        settings = getattr(options, "deepspeed_config_file", None)
        stage = getattr(options, "zero_stage", None)
        way = _OF_STAGE.get(_STAGE_OF_ACCELERATE if stage is None else stage)
        raise sharded_by("DeepSpeed", deepspeed_way(settings) if settings else way)
    if getattr(options, "use_megatron_lm", False):
        sizes = [getattr(options, f"megatron_lm_{name}_degree", 1) for name in ("tp", "pp")]
        raise sharded_by("Megatron-LM", megatron_way(*sizes))


def deepspeed_way(settings: Any) -> str | None:
    """The way that settings of DeepSpeed ask for, a dict or the path of a file; None where it is not known."""
    if isinstance(settings, (str, os.PathLike)):
        settings = _read(settings)
    if not isinstance(settings, dict):
        return None
    zero = settings.get("zero_optimization", {})
    stage = zero.get("stage", 0) if isinstance(zero, dict) else None
    return _OF_STAGE.get(stage) if type(stage) is int else None


def megatron_way(tensor: Any = 1, pipeline: Any = 1) -> str | None:
    """None with a pipeline, which no way counts."""
    if type(pipeline) is int and pipeline > 1:
        return None
    return "tp" if type(tensor) is int and tensor > 1 else "ddp"


def install(patches: Patches) -> None:
    when_imported("deepspeed", _refusing(patches, "initialize", _deepspeed))
    when_imported(
        "megatron.core.parallel_state",
        _refusing(patches, "initialize_model_parallel", _megatron),
    )


def _deepspeed(args: Any = None, *_: Any, **given: Any) -> Failure:
    settings = given.get("config") or given.get("config_params")
    return sharded_by(
        "DeepSpeed", deepspeed_way(settings or getattr(args, "deepspeed_config", None))
    )


def _megatron(
    tensor_model_parallel_size: int = 1, pipeline_model_parallel_size: int = 1, *_: Any, **__: Any
) -> Failure:
    way = megatron_way(tensor_model_parallel_size, pipeline_model_parallel_size)
    return sharded_by("Megatron-LM", way)


def _refusing(
    patches: Patches, name: str, failure_of: Callable[..., Failure]
) -> Callable[[Any], None]:
    def refuse(*args: Any, **kwargs: Any) -> None:
        raise failure_of(*args, **kwargs)

    def install_into(module: Any) -> None:
        if hasattr(module, name):
            patches.set(module, name, refuse)

    return install_into


def _read(path: Any) -> Any:
    try:
        with open(path, encoding="utf-8") as file:
            return json.loads(file.read(_LARGEST_SETTINGS))
    except (OSError, ValueError):
        return None
