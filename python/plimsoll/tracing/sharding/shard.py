"""Spreads a workload over ranks: the one that is traced is the first, which never holds the least."""

from __future__ import annotations

from typing import Any

import torch

from .. import ledger as kinds
from ..standins.patches import Patches
from ..workload import Settings, Workload
from . import ddp, fsdp1, fsdp2, tensor_parallel
from .parallel import Parallel
from .world import DEVICE

# Built where there is room, and sharded before anything comes to the GPU.
_SHARDED_FIRST = ("fsdp1", "fsdp2", "hsdp", "tp", "zero3")


def built_elsewhere(settings: Settings) -> bool:
    return settings.parallel is not None and settings.parallel.way in _SHARDED_FIRST


def spread(workload: Workload, parallel: Parallel, observer: Any, patches: Patches) -> None:
    model = workload.model
    if parallel.way == "ddp":
        ddp.prepare(patches, observer)
        workload.model = ddp.wrap(model, parallel, observer)
    elif parallel.way == "fsdp1":
        fsdp1.prepare(patches, observer)
        observer.recording = True
        workload.model = fsdp1.shard(model, parallel)
    elif parallel.way in ("fsdp2", "hsdp", "tp"):
        fsdp2.prepare(patches, observer)
        _shard_by_mesh(model, parallel, observer)
    if parallel.way in _SHARDED_FIRST:
        observer.recording = True
        _bring(workload.model, observer, whole=parallel.way == "zero3")


def _shard_by_mesh(model: Any, parallel: Parallel, observer: Any) -> None:
    from torch.distributed.device_mesh import init_device_mesh
    from torch.utils._python_dispatch import _disable_current_modes

    sizes = {"tp": parallel.tp, "shard": parallel.shards}
    if parallel.way == "hsdp":
        sizes["replicate"] = parallel.nodes
    # In the order of the ranks: those that exchange the most lie next to one another.
    order = [name for name in ("replicate", "shard", "tp") if sizes.get(name, 1) > 1] or ["shard"]
    # Parts of a mesh are found with small tensors of the host.
    with _disable_current_modes():
        mesh = init_device_mesh(
            DEVICE, tuple(sizes[name] for name in order), mesh_dim_names=tuple(order)
        )
        layers = mesh["tp"] if "tp" in order else None
        data = [name for name in order if name != "tp"]
        # A part of several dimensions is named by all of them, one of one by its name.
        copies = mesh[tuple(data)] if len(data) > 1 else mesh[data[0]] if data else None
    if layers is not None:
        tensor_parallel.shard(model, layers)
        note = tensor_parallel.note_of(model)
        if note is not None:
            observer.notes.add(note)
    if copies is not None:
        fsdp2.shard(model, parallel, copies)


def _bring(module: Any, observer: Any, whole: bool) -> None:
    """Asks for the shards in the order in which `to_empty` does; `whole` parameters lie elsewhere."""
    for child in module.children():
        _bring(child, observer, whole)
    for tensor in (*module._parameters.values(), *module._buffers.values()):
        if tensor is None or tensor.device.type != DEVICE:
            continue
        storage = getattr(tensor, "_local_tensor", tensor).untyped_storage()
        if whole and isinstance(tensor, torch.nn.Parameter):
            observer.ignore(storage)
        else:
            observer.adopt(storage, "to_empty", kinds.WEIGHT)
