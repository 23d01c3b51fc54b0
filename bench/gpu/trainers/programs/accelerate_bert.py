"""A program that knows nothing of Plimsoll: BERT of transformers in a loop of its own, with accelerate, random texts.

Usage: accelerate_bert.py --batch_size N --gradient_accumulation_steps N --steps N [--checkpointing] [--tiny]
"""

import argparse
import json
import time

import torch
from accelerate import Accelerator
from transformers import BertConfig, BertForSequenceClassification

parser = argparse.ArgumentParser()
parser.add_argument("--batch_size", type=int, required=True)
parser.add_argument("--gradient_accumulation_steps", type=int, default=1)
parser.add_argument("--steps", type=int, default=12)
parser.add_argument("--checkpointing", action="store_true")
parser.add_argument("--tiny", action="store_true")
given = parser.parse_args()
SMALL = {"hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2, "vocab_size": 100}
accelerator = Accelerator(gradient_accumulation_steps=given.gradient_accumulation_steps)
torch.manual_seed(0)
config = BertConfig(
    num_labels=4,
    hidden_dropout_prob=0.0,
    attention_probs_dropout_prob=0.0,
    **(SMALL if given.tiny else {}),
)
model = BertForSequenceClassification(config)
if given.checkpointing:
    model.gradient_checkpointing_enable()
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
model, optimizer = accelerator.prepare(model, optimizer)
model.train()
made = torch.Generator().manual_seed(0)
losses, at = [], []
began = time.perf_counter()
for _ in range(given.steps):
    total = 0.0
    for _ in range(given.gradient_accumulation_steps):
        shape = given.batch_size, 16 if given.tiny else 256
        ids = torch.randint(3, config.vocab_size, shape, generator=made).to(accelerator.device)
        with accelerator.accumulate(model):
            loss = model(input_ids=ids, labels=ids[:, 0] % 4).loss
            accelerator.backward(loss)
            accelerator.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            optimizer.zero_grad()
        total += float(loss.detach()) / given.gradient_accumulation_steps
    losses.append(total)
    at.append(time.perf_counter())
answer = {
    "losses": losses,
    "seconds": time.perf_counter() - began,
    "stepSeconds": [b - a for a, b in zip(at, at[1:])],
    "checkpointing": accelerator.unwrap_model(model).is_gradient_checkpointing,
}
print("ANSWER " + json.dumps(answer))
