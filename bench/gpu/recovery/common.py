"""What the parts of the recovery benchmark share: the model, its data, the clock."""

from __future__ import annotations

import json
import os
import sys
import time

sys.path.insert(
    0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "..", "python")
)

# Asking whether there is a card must not touch it: settle.py forks afterwards.
os.environ.setdefault("PYTORCH_NVML_BASED_CUDA_CHECK", "1")

import torch

GIB = 2**30
TINY = os.environ.get("BENCH_TINY") == "1"


def _has_card() -> bool:
    """Asked in a process of its own, so that this one may still fork."""
    pid = os.fork()
    if pid == 0:
        os._exit(0 if torch.cuda.is_available() else 1)
    return os.waitpid(pid, 0)[1] == 0


DEVICE = "cuda" if _has_card() else "cpu"
CAP_BYTES = 8 * GIB
STEPS = 6 if TINY else 30
# The sequences get longer in the middle, as they do in real data: the first batches fit, later ones do not.
LONGER_AT = STEPS // 2
SEQUENCES = (8, 16) if TINY else (256, 512)


def gpt2(seed: int = 0):
    """GPT-2 124M with random weights; no dropout, so that curves can be compared to the digit."""
    from transformers import GPT2Config, GPT2LMHeadModel

    torch.manual_seed(seed)
    small = (
        {"n_embd": 16, "n_layer": 2, "n_head": 2, "vocab_size": 64, "n_positions": 64}
        if TINY
        else {}
    )
    config = GPT2Config(resid_pdrop=0.0, embd_pdrop=0.0, attn_pdrop=0.0, use_cache=False, **small)
    config.bos_token_id = config.eos_token_id = 0
    return GPT2LMHeadModel(config).to(DEVICE)


def tokens(step: int, batch: int, vocabulary: int):
    """Sequences that can be learnt: each token follows from the one before it, with some noise."""
    made = torch.Generator().manual_seed(step)
    length = SEQUENCES[step >= LONGER_AT]
    start = torch.randint(0, vocabulary, (batch, 1), generator=made)
    ids = (start + 7 * torch.arange(length)[None]) % vocabulary
    noise = torch.rand(batch, length, generator=made) < 0.1
    ids[noise] = torch.randint(0, vocabulary, (int(noise.sum()),), generator=made)
    ids = ids.to(DEVICE)
    return {"input_ids": ids, "labels": ids}


def cap(bytes_allowed: int) -> None:
    if DEVICE == "cuda":
        total = torch.cuda.get_device_properties(0).total_memory
        torch.cuda.set_per_process_memory_fraction(bytes_allowed / total)


def peak_bytes() -> int:
    return torch.cuda.max_memory_allocated() if DEVICE == "cuda" else 0


def wait_for_device() -> None:
    if DEVICE == "cuda":
        torch.cuda.synchronize()


def seconds() -> float:
    wait_for_device()
    return time.perf_counter()


def answer(**figures) -> None:
    """The part's result: one JSON line, the last it prints."""
    print(json.dumps(figures), flush=True)
