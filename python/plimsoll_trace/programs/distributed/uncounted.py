"""Ways of spreading a model whose memory is not counted: one clear error instead of a wrong figure."""

from __future__ import annotations

from typing import Any, Callable

from plimsoll.failure import Failure

from ...standins.imports import when_imported
from ...standins.patches import Patches

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


def install(patches: Patches) -> None:
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
