"""Tensor parallelism by `parallelize_module`, with the plan that transformers has for the model."""

from __future__ import annotations

from typing import Any

from ...failure import Failure


def shard(model: Any, mesh: Any) -> None:
    from torch.distributed.tensor import Replicate
    from torch.distributed.tensor.parallel import (
        ColwiseParallel,
        RowwiseParallel,
        parallelize_module,
    )

    plan = dict(getattr(model, "_tp_plan", None) or {})
    if not plan:
        raise Failure(
            "no-tensor-plan",
            f"transformers has no plan for tensor parallelism of {type(model).__name__}",
            "take --parallel fsdp2",
        )
    _check_heads(model, mesh.size())
    # A head that shares its weights with the embedding stays whole, as the embedding does.
    tied = getattr(model.config, "tie_word_embeddings", False)
    styles = {
        "colwise": lambda: ColwiseParallel(),
        "rowwise": lambda: RowwiseParallel(),
        "colwise_gather_output": lambda: ColwiseParallel(output_layouts=Replicate()),
        "colwise_rep": lambda: ColwiseParallel(output_layouts=Replicate()),
    }
    chosen = {
        name: styles[style]()
        for name, style in plan.items()
        if style in styles and not (tied and name == "lm_head")
    }
    parallelize_module(model, mesh, chosen, src_data_rank=None)


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
