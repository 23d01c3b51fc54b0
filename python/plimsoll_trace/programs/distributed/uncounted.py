"""Ways of spreading a model whose memory is not counted: one clear error instead of a wrong figure."""

from __future__ import annotations

import json
import os
from typing import Any, Callable

from plimsoll.failure import Failure

from ...standins.imports import when_imported
from ...standins.patches import Patches

# Libraries that spread a model and are not traced: an error that names the way, which can be asked for instead.

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


def install_other_libraries(patches: Patches) -> None:
    when_imported("deepspeed", _refusing_of_other_libraries(patches, "initialize", _deepspeed))
    when_imported(
        "megatron.core.parallel_state",
        _refusing_of_other_libraries(patches, "initialize_model_parallel", _megatron),
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


def _refusing_of_other_libraries(
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


_MEASURE = "measure it on its GPUs: plimsoll run -- torchrun ..."
# Where a way begins: a module, a function or a method in it, and the way.
_BEGINNINGS = (
    ("torch.distributed.pipelining.stage", "_PipelineStageBase.__init__", "pipeline"),
    ("torch.distributed.pipelining", "pipeline", "pipeline"),
    *(
        (f"torch.distributed.tensor.experimental{module}", name, "context")
        for module in ("", "._attention", "._context_parallel", "._context_parallel._attention")
        for name in ("context_parallel", "_context_parallel_shard", "_ContextParallel.__init__")
    ),
)
# Collectives that may say how much goes to which rank, and the place of the first of the two lists.
_EXCHANGES = (
    ("torch.distributed", "all_to_all_single", 2),
    ("torch.distributed._functional_collectives", "all_to_all_single", 1),
    ("torch.distributed._functional_collectives", "all_to_all_single_autograd", 1),
)
_SPLITS = ("output_split_sizes", "input_split_sizes")
# Settings of libraries: a module, a class, and the fields that ask for a way.
_SETTINGS = (
    (
        "transformers.distributed.configuration_utils",
        "DistributedConfig",
        {
            "enable_expert_parallel": "expert",
            "enable_sequence_parallel": "context",
            "pp_size": "pipeline",
        },
    ),
    (
        "accelerate.parallelism_config",
        "ParallelismConfig",
        {"cp_size": "context", "sp_size": "context"},
    ),
)


def not_counted(way: str) -> Failure:
    return Failure(
        "not-counted",
        f"the program uses {way} parallelism, which is not counted",
        _MEASURE,
    )


def chosen_by_data() -> Failure:
    return Failure(
        "not-counted",
        "the program sends each rank as much as the data say (all_to_all_single with split sizes, as expert "
        "parallelism does), which is not counted",
        _MEASURE,
    )


def install_uncounted(patches: Patches) -> None:
    for module, path, way in _BEGINNINGS:
        when_imported(module, _refusing(patches, path, not_counted(way)))
    for module, name, place in _EXCHANGES:
        when_imported(module, _splitting(patches, name, place))
    for module, owner, fields in _SETTINGS:
        when_imported(module, _checking(patches, owner, fields))


def _refusing(patches: Patches, path: str, failure: Failure) -> Callable[[Any], None]:
    owner, _, name = path.rpartition(".")

    def refuse(*_: Any, **__: Any) -> None:
        raise failure

    def install_into(module: Any) -> None:
        target = getattr(module, owner, None) if owner else module
        if target is not None and hasattr(target, name):
            patches.set(target, name, refuse)

    return install_into


def _splitting(patches: Patches, name: str, place: int) -> Callable[[Any], None]:
    def install_into(module: Any) -> None:
        original = getattr(module, name, None)
        if original is None:
            return

        def exchange(*args: Any, **kwargs: Any) -> Any:
            given = (*args[place : place + 2], *map(kwargs.get, _SPLITS))
            if any(splits is not None for splits in given):
                raise chosen_by_data()
            return original(*args, **kwargs)

        patches.set(module, name, exchange)

    return install_into


def _checking(patches: Patches, owner: str, fields: dict[str, str]) -> Callable[[Any], None]:
    def install_into(module: Any) -> None:
        settings = getattr(module, owner, None)
        check = getattr(settings, "__post_init__", None)
        if settings is None or check is None:
            return

        def __post_init__(self: Any) -> None:
            check(self)
            for name, way in fields.items():
                # A switch that is on, or a size of several.
                asked = getattr(self, name, None)
                if asked is True or (type(asked) is int and asked > 1):
                    raise not_counted(way)

        patches.set(settings, "__post_init__", __post_init__)

    return install_into
