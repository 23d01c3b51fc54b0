"""Trains one model, plain or optimized. Usage: part_optimize.py gpt2|bert|vit plain|optimized SEED."""

import sys

import torch

from common import DEVICE, TINY, answer, peak_bytes, seconds

import plimsoll

name, way, seed = sys.argv[1], sys.argv[2], int(sys.argv[3])
STEPS = 8 if TINY else 200
WARM_UP = 2 if TINY else 40
LAST = 4 if TINY else 25
POOL = 4 if TINY else 12
SMALL = {
    "hidden_size": 16,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "intermediate_size": 32,
}
# As people train today; the same for both.
torch.set_float32_matmul_precision("high")
torch.manual_seed(seed)


def gpt2():
    from transformers import GPT2Config, GPT2LMHeadModel

    small = {"n_embd": 16, "n_layer": 2, "n_head": 2, "vocab_size": 64} if TINY else {}
    config = GPT2Config(use_cache=False, bos_token_id=0, eos_token_id=0, **small)
    return GPT2LMHeadModel(config), lambda made: _sequences(
        made, config.vocab_size, (2, 16) if TINY else (16, 512)
    )


def bert():
    from transformers import BertConfig, BertForMaskedLM

    config = BertConfig(**({**SMALL, "vocab_size": 64} if TINY else {}))

    def batch(made):
        data = _sequences(made, config.vocab_size, (2, 16) if TINY else (32, 256))
        hidden = torch.rand(data["input_ids"].shape, generator=made) < 0.15
        hidden[:, 0] = True
        data["labels"] = data["labels"].masked_fill(~hidden, -100)
        data["input_ids"] = data["input_ids"].masked_fill(hidden, 1)
        return data

    return BertForMaskedLM(config), batch


def vit():
    from transformers import ViTConfig, ViTForImageClassification

    config = ViTConfig(num_labels=10, **({**SMALL, "image_size": 32} if TINY else {}))

    def batch(made):
        labels = torch.randint(0, 10, (4 if TINY else 64,), generator=made)
        size = config.image_size
        pictures = torch.randn(len(labels), 3, size, size, generator=made)
        # A bright bar whose place tells the class.
        for picture, label in zip(pictures, labels):
            picture[:, :, label * size // 10 : (label + 1) * size // 10] += 0.5
        return {"pixel_values": pictures, "labels": labels}

    return ViTForImageClassification(config), batch


def _sequences(made, vocabulary, shape):
    """Words of a small language: three times in four the next one follows from the one before it."""
    words = min(64, vocabulary)
    ids = torch.randint(0, words, shape, generator=made)
    follows = torch.rand(shape, generator=made) < 0.75
    for place in range(1, shape[1]):
        ids[:, place] = torch.where(
            follows[:, place], (ids[:, place - 1] * 5 + 17) % words, ids[:, place]
        )
    return {"input_ids": ids, "labels": ids.clone()}


model, make = {"gpt2": gpt2, "bert": bert, "vit": vit}[name]()
model.to(DEVICE).train()
optimizer = torch.optim.AdamW(model.parameters(), lr=3e-4)
schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: min(1.0, (step + 1) / WARM_UP))
# The data is the same for every seed; the seed chooses weights and dropout.
made = torch.Generator().manual_seed(0)
pool = [{key: value.to(DEVICE) for key, value in make(made).items()} for _ in range(POOL)]
report = None
if way == "optimized":
    report = plimsoll.optimize(model, optimizer, forward=lambda: model(**pool[0]).loss).report()
if DEVICE == "cuda":
    torch.cuda.empty_cache()
    torch.cuda.reset_peak_memory_stats()
losses, times = [], []
for number in range(STEPS):
    begin = seconds()
    loss = model(**pool[number % POOL]).loss
    loss.backward()
    optimizer.step()
    optimizer.zero_grad(set_to_none=True)
    schedule.step()
    losses.append(loss.item())
    times.append(seconds() - begin)
answer(
    finalLoss=sum(losses[-LAST:]) / LAST,
    firstLoss=losses[0],
    peakBytes=peak_bytes(),
    stepSeconds=sorted(times)[len(times) // 2],
    report=report,
)
