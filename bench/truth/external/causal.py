"""A causal language model as others trained it: with no layer checkpointed, all, or half (every second)."""

import json

import torch
import transformers


def workload(config, batch, seq, checkpoint="none"):
    with open(config, encoding="utf-8") as file:
        settings = transformers.AutoConfig.for_model(**json.load(file))
    settings.use_cache = False
    made = transformers.AutoModelForCausalLM.from_config(settings)
    model = made.train()
    if checkpoint != "none":
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
