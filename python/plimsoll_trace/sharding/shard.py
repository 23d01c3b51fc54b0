"""Spreads a workload over ranks: the one that is traced is the first, which never holds the least."""

from __future__ import annotations

from typing import Any, Callable

import torch

from plimsoll.failure import Failure

from .. import ledger as kinds
from ..standins.patches import Patches
from ..workload import Settings, Workload
from . import ddp, fsdp
from .parallel import Parallel
from .world import DEVICE

# Built where there is room, and sharded before anything comes to the GPU.
_SHARDED_FIRST = ("fsdp1", "fsdp2", "hsdp", "tp", "zero3")


# Tensor parallelism with the plan that transformers has for the model.
#
# A plan gives each layer a style. Where torch knows all of them its `parallelize_module` cuts the layers;
# experts and packed weights are cut by transformers' own code, as `from_pretrained(tp_plan="auto")` does.

# The layer stays whole, and so does its gradient, which is added up in place.
_WHOLE = "replicated_with_grad_allreduce"


def shard(model: Any, mesh: Any) -> None:
    plan = dict(getattr(model, "_tp_plan", None) or {})
    if not plan:
        raise Failure(
            "no-tensor-plan",
            f"transformers has no plan for tensor parallelism of {type(model).__name__}",
            "take --parallel fsdp2",
        )
    _check_heads(model, mesh.size())
    # A head that shares its weights with the embedding stays whole, as the embedding does.
    if getattr(model.config, "tie_word_embeddings", False):
        plan.pop("lm_head", None)
    styles = _styles_of_torch()
    unknown = sorted({style for style in plan.values() if style not in styles and style != _WHOLE})
    if unknown:
        _by_transformers(model, mesh, plan, unknown)
    else:
        _by_torch(model, mesh, plan, styles)


def note_of(model: Any) -> str | None:
    """Says so where a plan leaves most of a model as it is."""
    whole = total = 0
    for parameter in model.parameters():
        placements = getattr(parameter, "placements", ())
        total += parameter.numel()
        if all(placement.is_replicate() for placement in placements):
            whole += parameter.numel()
    if 2 * whole <= total:
        return None
    return (
        f"the plan that transformers has for tensor parallelism of {type(model).__name__} leaves "
        f"{100 * whole // total} % of the parameters whole on each GPU"
    )


def _styles_of_torch() -> dict[str, Callable[[], Any]]:
    from torch.distributed.tensor import Replicate
    from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel

    def gathered() -> Any:
        return ColwiseParallel(output_layouts=Replicate())

    def split() -> Any:
        return RowwiseParallel(input_layouts=Replicate())

    return {
        "colwise": ColwiseParallel,
        "rowwise": RowwiseParallel,
        "colwise_gather_output": gathered,
        "colwise_rep": gathered,
        "rowwise_split_input": split,
        "rowwise_rep": split,
        "embedding_rowwise": split,
    }


def _by_torch(model: Any, mesh: Any, plan: dict[str, str], styles: dict[str, Any]) -> None:
    from torch.distributed.tensor.parallel import parallelize_module

    chosen = {name: styles[style]() for name, style in plan.items() if style != _WHOLE}
    parallelize_module(model, mesh, chosen, src_data_rank=None)


def _by_transformers(model: Any, mesh: Any, plan: dict[str, str], unknown: list[str]) -> None:
    try:
        from transformers.distributed import tensor_parallel
    except ImportError:
        known: Any = ()
    else:
        known = tensor_parallel.ALL_PARALLEL_STYLES
    missing = [style for style in unknown if style not in known]
    if missing:
        raise Failure(
            "no-tensor-style",
            f"the plan of {type(model).__name__} for tensor parallelism has {', '.join(missing)}, "
            "which this transformers cannot apply",
            "take --parallel fsdp2, or a later transformers",
        )
    model._tp_plan = plan
    try:
        tensor_parallel.apply_tensor_parallelism(model, mesh)
    except ValueError as error:
        raise Failure(
            "layers-not-even", str(error).rstrip("."), "choose a --tp that divides them"
        ) from error


def _check_heads(model: Any, ranks: int) -> None:
    config = model.config
    heads = getattr(config, "num_attention_heads", ranks)
    shared = getattr(config, "num_key_value_heads", None) or heads
    if heads % ranks or shared % ranks:
        raise Failure(
            "heads-not-even",
            f"{ranks} GPUs cannot share {heads} heads ({shared} of keys) evenly",
            "choose a --tp that divides both",
        )


def built_elsewhere(settings: Settings) -> bool:
    return settings.parallel is not None and settings.parallel.way in _SHARDED_FIRST


def spread(workload: Workload, parallel: Parallel, observer: Any, patches: Patches) -> None:
    model = workload.model
    if parallel.way == "ddp":
        ddp.prepare(patches, observer)
        workload.model = ddp.wrap(model, parallel, observer)
    elif parallel.way == "fsdp1":
        fsdp.prepare_fsdp1(patches, observer)
        observer.recording = True
        workload.model = fsdp.shard_fsdp1(model, parallel)
    elif parallel.way in ("fsdp2", "hsdp", "tp"):
        fsdp.prepare_fsdp2(patches, observer)
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
        shard(model, layers)
        note = note_of(model)
        if note is not None:
            observer.notes.add(note)
    if copies is not None:
        fsdp.shard_fsdp2(model, parallel, copies)


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
