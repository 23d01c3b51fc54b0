"""Tensor parallelism with the plan that transformers has for the model.

A plan gives each layer a style. Where torch knows all of them its `parallelize_module` cuts the layers;
experts and packed weights are cut by transformers' own code, as `from_pretrained(tp_plan="auto")` does.
"""

from __future__ import annotations

from typing import Any, Callable

from ...failure import Failure

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
