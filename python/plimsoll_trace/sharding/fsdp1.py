"""`FullyShardedDataParallel` (FSDP1) on the meta device, run by PyTorch's own code."""

from __future__ import annotations

from typing import Any

import torch

from .. import ledger as kinds
from ..standins.patches import Patches
from ..workload import DTYPES
from . import groups
from .labels import labelled
from .parallel import Parallel
from .world import DEVICE


def prepare(patches: Patches, observer: Any) -> None:
    from torch.distributed.fsdp import _init_utils
    from torch.distributed.fsdp import fully_sharded_data_parallel as wrapper

    device = torch.device(DEVICE)
    for module in (_init_utils, wrapper):
        if hasattr(module, "_init_device_handle"):
            patches.set(module, "_init_device_handle", _with_handle)
    patches.set(_init_utils, "_get_compute_device", lambda *_: device)
    label(patches, observer)


def label(patches: Patches, observer: Any) -> None:
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


def shard(model: Any, parallel: Parallel, group: Any = None) -> Any:
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
        auto_wrap_policy=ModuleWrapPolicy({type(layer) for layer in groups.layers(model)}),
        mixed_precision=MixedPrecision(param_dtype=gather, reduce_dtype=reduce)
        if gather or reduce
        else None,
        sharding_strategy=ShardingStrategy.FULL_SHARD if full else ShardingStrategy.SHARD_GRAD_OP,
        use_orig_params=parallel.orig_params,
        # Each group comes to the GPU as a whole, and is then cut.
        param_init_fn=lambda module: module.to_empty(device=DEVICE, recurse=False),
    )
