"""The models of the claims: random weights, made-up data, no dropout; small ones with BENCH_TINY=1."""

from __future__ import annotations

import os
import sys
from typing import Any

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "..", "..", "python"))

import torch

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
TINY = os.environ.get("BENCH_TINY") == "1"
NAMES = ("gpt2", "bert", "vit")
# (training, inference with many, inference with one); sequences of 512 and 256 tokens.
BATCHES = {"gpt2": (16, 8, 1), "bert": (32, 32, 1), "vit": (64, 64, 1)}
WORDS = {
    "gpt2": "GPT-2 124M, 512 tokens",
    "bert": "BERT base, 256 tokens",
    "vit": "ViT base, 224 x 224",
}
_SMALL = {
    "hidden_size": 32,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "intermediate_size": 64,
}


def build(name: str) -> Any:
    import transformers

    torch.manual_seed(0)
    with torch.device(DEVICE):
        if name == "gpt2":
            small = {"n_embd": 32, "n_layer": 2, "n_head": 2, "vocab_size": 64} if TINY else {}
            config = transformers.GPT2Config(
                use_cache=False, resid_pdrop=0.0, embd_pdrop=0.0, attn_pdrop=0.0, **small
            )
            config.bos_token_id = config.eos_token_id = 0
            return transformers.GPT2LMHeadModel(config)
        rest = _SMALL if TINY else {}
        quiet = {"hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0}
        if name == "bert":
            words = {"vocab_size": 64} if TINY else {}
            return transformers.BertForMaskedLM(transformers.BertConfig(**rest, **quiet, **words))
        return transformers.ViTForImageClassification(
            transformers.ViTConfig(num_labels=10, **rest, **quiet)
        )


def data(name: str, model: Any, batch: int, labels: bool = True) -> dict[str, Any]:
    made = torch.Generator().manual_seed(0)
    if name == "vit":
        size = model.config.image_size
        found = {"pixel_values": torch.randn(batch, 3, size, size, generator=made)}
        truth = torch.randint(0, 10, (batch,), generator=made)
    else:
        length = 16 if TINY else {"gpt2": 512, "bert": 256}[name]
        ids = torch.randint(0, model.config.vocab_size, (batch, length), generator=made)
        found, truth = {"input_ids": ids}, ids
    if labels:
        found["labels"] = truth
    return {key: value.to(DEVICE) for key, value in found.items()}


def wait() -> None:
    if DEVICE == "cuda":
        torch.cuda.synchronize()


def held() -> int:
    return torch.cuda.memory_allocated() if DEVICE == "cuda" else 0


def give_back() -> None:
    import gc

    gc.collect()
    if DEVICE == "cuda":
        torch.cuda.empty_cache()
        torch.cuda.reset_peak_memory_stats()


def peak() -> int:
    return torch.cuda.max_memory_allocated() if DEVICE == "cuda" else 0


def cap(allowed: int | None) -> None:
    """How much PyTorch's allocator may take in all; None lifts the cap."""
    if DEVICE == "cuda":
        total = torch.cuda.get_device_properties(0).total_memory
        share = 1.0 if allowed is None else min(1.0, allowed / total)
        torch.cuda.set_per_process_memory_fraction(share)
