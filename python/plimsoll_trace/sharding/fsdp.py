"""Fully sharded data parallel, both versions: what each gathers, reduces and frees."""

from __future__ import annotations

from typing import Any

import torch

from .. import ledger as kinds
from ..standins.patches import Patches
from ..workload import DTYPES
from . import world
from .parallel import Parallel
from .world import DEVICE, labelled

# `FullyShardedDataParallel` (FSDP1) on the meta device, run by PyTorch's own code.


def prepare_fsdp1(patches: Patches, observer: Any) -> None:
    from torch.distributed.fsdp import _init_utils
    from torch.distributed.fsdp import fully_sharded_data_parallel as wrapper

    device = torch.device(DEVICE)
    for module in (_init_utils, wrapper):
        if hasattr(module, "_init_device_handle"):
            patches.set(module, "_init_device_handle", _with_handle)
    patches.set(_init_utils, "_get_compute_device", lambda *_: device)
    label_fsdp1(patches, observer)


def label_fsdp1(patches: Patches, observer: Any) -> None:
    """Says what FSDP's requests are for, and which streams use them; a storage of meta has no address."""
    from torch.distributed.fsdp import _flat_param, _runtime_utils
    from torch.distributed.fsdp import fully_sharded_data_parallel as wrapper

    patches.set(
        _flat_param,
        "_same_storage",
        lambda a, b: a.untyped_storage()._cdata == b.untyped_storage()._cdata,
    )
    patches.set(
        _flat_param, "_data_ptr_allocated", lambda tensor: tensor.untyped_storage().nbytes() > 0
    )

    def record_stream(tensor: Any, stream: Any) -> None:
        observer.ledger.use(observer.ident_of(tensor), getattr(stream, "number", 0))

    for module in (_flat_param, _runtime_utils, wrapper):
        if hasattr(module, "_no_dispatch_record_stream"):
            patches.set(module, "_no_dispatch_record_stream", record_stream)
    for name in ("pre_unshard", "unshard"):
        method = getattr(_flat_param.FlatParamHandle, name)
        patches.set(_flat_param.FlatParamHandle, name, labelled(observer, kinds.GATHERED, method))
    for name in ("_reduce_grad", "_reduce_grad_no_shard"):
        function = getattr(_runtime_utils, name)
        patches.set(_runtime_utils, name, labelled(observer, kinds.REDUCE, function))


def _with_handle(state: Any, *_: Any) -> Any:
    state._device_handle = getattr(torch, DEVICE)
    return state


def shard_fsdp1(model: Any, parallel: Parallel, group: Any = None) -> Any:
    from torch.distributed.fsdp import (
        FullyShardedDataParallel,
        MixedPrecision,
        ShardingStrategy,
    )
    from torch.distributed.fsdp.wrap import ModuleWrapPolicy

    gather, reduce = DTYPES.get(parallel.gather), DTYPES.get(parallel.reduce)
    full = parallel.strategy == "full" and parallel.reshard
    return FullyShardedDataParallel(
        model,
        process_group=group,
        auto_wrap_policy=ModuleWrapPolicy({type(layer) for layer in world.layers(model)}),
        mixed_precision=MixedPrecision(param_dtype=gather, reduce_dtype=reduce)
        if gather or reduce
        else None,
        sharding_strategy=ShardingStrategy.FULL_SHARD if full else ShardingStrategy.SHARD_GRAD_OP,
        use_orig_params=parallel.orig_params,
        # Each group comes to the GPU as a whole, and is then cut.
        param_init_fn=lambda module: module.to_empty(device=DEVICE, recurse=False),
    )


# `fully_shard` (FSDP2) on the meta device, run by PyTorch's own code.


def prepare_fsdp2(patches: Patches, observer: Any) -> None:
    """Lets `fully_shard` take the meta device for a GPU."""
    from torch.distributed.fsdp._fully_shard import _fsdp_init, _fsdp_param_group, _fully_shard
    from torch.distributed.tensor import DTensor

    observer.passes_on = (DTensor,)
    for module in (_fsdp_init, _fully_shard):
        if hasattr(module, "_get_device_from_mesh"):
            patches.set(module, "_get_device_from_mesh", lambda _mesh: torch.device(DEVICE))
    group = _fsdp_param_group.FSDPParamGroup
    patches.set(group, "_validate_no_meta_params", lambda _self: None)
    label_fsdp2(patches, observer)


def label_fsdp2(patches: Patches, observer: Any) -> None:
    """Says what FSDP's requests are for."""
    from torch.distributed.fsdp._fully_shard import _fsdp_param_group

    group = _fsdp_param_group.FSDPParamGroup
    for name in ("unshard", "wait_for_unshard"):
        patches.set(group, name, labelled(observer, kinds.GATHERED, getattr(group, name)))
    patches.set(
        _fsdp_param_group,
        "foreach_reduce",
        labelled(observer, kinds.REDUCE, _fsdp_param_group.foreach_reduce),
    )


def shard_fsdp2(model: Any, parallel: Parallel, mesh: Any) -> None:
    from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard

    settings: dict[str, Any] = {
        "mesh": mesh,
        "mp_policy": MixedPrecisionPolicy(
            param_dtype=DTYPES.get(parallel.gather), reduce_dtype=DTYPES.get(parallel.reduce)
        ),
    }
    if not parallel.reshard or parallel.strategy == "grad-op":
        settings["reshard_after_forward"] = False
    for layer in world.layers(model):
        fully_shard(layer, **settings)
    fully_shard(model, **settings)
