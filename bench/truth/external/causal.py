"""A causal language model as others trained it: which attention, and which layers are checkpointed.

`checkpoint`: none, all, half (every second layer), or op: all layers, where every second product of matrices
and the attention are kept, as TorchTitan's selective checkpointing does.
"""

import functools
import json

import torch
import transformers
from torch.utils import checkpoint as checkpointing


def workload(config, batch, seq, checkpoint="none", attention="sdpa"):
    with open(config, encoding="utf-8") as file:
        settings = transformers.AutoConfig.for_model(**json.load(file))
    settings.use_cache = False
    made = transformers.AutoModelForCausalLM.from_config(settings, attn_implementation=attention)
    model = made.train()
    if checkpoint != "none":
        model.gradient_checkpointing_enable()
    layers = [m for m in model.modules() if hasattr(m, "_gradient_checkpointing_func")]
    if checkpoint == "half":
        for layer in layers[1::2]:
            layer.gradient_checkpointing = False
    if checkpoint == "op":
        for layer in layers:
            layer._gradient_checkpointing_func = functools.partial(
                checkpointing.checkpoint, use_reentrant=False, context_fn=_contexts
            )
    ids = torch.zeros(batch, seq, dtype=torch.long)
    return {
        "model": model,
        "batch": {"input_ids": ids, "labels": ids},
        "loss": lambda model, given: model(**given).loss,
    }


def _contexts():
    """Keeps every second product of matrices, and each attention."""
    seen = {"count": 0}
    products = (torch.ops.aten.mm.default, torch.ops.aten.addmm.default)
    save, again = (
        checkpointing.CheckpointPolicy.MUST_SAVE,
        checkpointing.CheckpointPolicy.PREFER_RECOMPUTE,
    )

    def policy(context, op, *_, **__):
        if op in products and not context.is_recompute:
            seen["count"] += 1
        if op in products:
            return save if seen["count"] % 2 else again
        return save if "scaled_dot_product" in str(op) else again

    return checkpointing.create_selective_checkpoint_contexts(policy)
