"""A causal language model as others trained it, with one of these ways of checkpointing:

none, all (every layer), half (every second layer), operations (in each layer the results of attention and
of every second product are kept, and the rest is computed again).
"""

import json

import torch
import transformers
from torch.utils.checkpoint import CheckpointPolicy, create_selective_checkpoint_contexts

PRODUCT = torch.ops.aten.mm.default
ATTENTION = (
    torch.ops.aten._scaled_dot_product_flash_attention.default,
    torch.ops.aten._scaled_dot_product_efficient_attention.default,
)


def kept_operations():
    """The contexts of one layer: forward, and when it is computed again."""
    products = {False: 0, True: 0}

    def policy(context, operation, *_, **__):
        kept = operation in ATTENTION
        if operation is PRODUCT:
            products[context.is_recompute] += 1
            kept = products[context.is_recompute] % 2 == 1
        return CheckpointPolicy.MUST_SAVE if kept else CheckpointPolicy.PREFER_RECOMPUTE

    return create_selective_checkpoint_contexts(policy)


def workload(config, batch, seq, checkpoint="none", cudnn=True):
    # Which kernel computes attention decides what is kept of it.
    torch.backends.cuda.enable_cudnn_sdp(cudnn)
    with open(config, encoding="utf-8") as file:
        settings = transformers.AutoConfig.for_model(**json.load(file))
    settings.use_cache = False
    made = transformers.AutoModelForCausalLM.from_config(settings)
    model = made.train()
    if checkpoint == "operations":
        model.gradient_checkpointing_enable({"use_reentrant": False, "context_fn": kept_operations})
    elif checkpoint != "none":
        model.gradient_checkpointing_enable()
    layers = [m for m in model.modules() if hasattr(m, "_gradient_checkpointing_func")]
    if checkpoint == "half":
        for layer in layers[1::2]:
            layer.gradient_checkpointing = False
    ids = torch.zeros(batch, seq, dtype=torch.long)
    return {
        "model": model,
        "batch": {"input_ids": ids, "labels": ids},
        "loss": lambda model, given: model(**given).loss,
    }
