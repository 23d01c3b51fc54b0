"""`fully_shard` (FSDP2) on the meta device, run by PyTorch's own code."""

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
    """Lets `fully_shard` take the meta device for a GPU."""
    from torch.distributed.fsdp._fully_shard import _fsdp_init, _fsdp_param_group, _fully_shard
    from torch.distributed.tensor import DTensor

    observer.passes_on = (DTensor,)
    for module in (_fsdp_init, _fully_shard):
        if hasattr(module, "_get_device_from_mesh"):
            patches.set(module, "_get_device_from_mesh", lambda _mesh: torch.device(DEVICE))
    group = _fsdp_param_group.FSDPParamGroup
    patches.set(group, "_validate_no_meta_params", lambda _self: None)
    label(patches, observer)


def label(patches: Patches, observer: Any) -> None:
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


def shard(model: Any, parallel: Parallel, mesh: Any) -> None:
    from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard

    settings: dict[str, Any] = {
        "mesh": mesh,
        "mp_policy": MixedPrecisionPolicy(
            param_dtype=DTYPES.get(parallel.gather), reduce_dtype=DTYPES.get(parallel.reduce)
        ),
    }
    if not parallel.reshard or parallel.strategy == "grad-op":
        settings["reshard_after_forward"] = False
    for layer in groups.layers(model):
        fully_shard(layer, **settings)
    fully_shard(model, **settings)
