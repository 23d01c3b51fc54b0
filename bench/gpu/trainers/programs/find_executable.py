"""A program that handles out-of-memory itself: accelerate's find_executable_batch_size around a plain loop, GPT-2."""

import argparse
import json
import time

import torch
from accelerate import Accelerator
from accelerate.utils import find_executable_batch_size
from transformers import GPT2Config, GPT2LMHeadModel

parser = argparse.ArgumentParser()
parser.add_argument("--batch", type=int, required=True)
parser.add_argument("--steps", type=int, default=12)
parser.add_argument("--tiny", action="store_true")
given = parser.parse_args()
SMALL = {"n_embd": 16, "n_layer": 2, "n_head": 2, "vocab_size": 100}
LENGTH = 16 if given.tiny else 512
tries = []


@find_executable_batch_size(starting_batch_size=given.batch)
def train(batch_size):
    accelerator = Accelerator()
    accelerator.free_memory()
    torch.manual_seed(0)
    model = GPT2LMHeadModel(GPT2Config(**(SMALL if given.tiny else {})))
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
    model, optimizer = accelerator.prepare(model, optimizer)
    tries.append({"batch": batch_size, "steps": 0})
    for step in range(given.steps * given.batch // batch_size):
        made = torch.Generator().manual_seed(step)
        ids = torch.randint(3, model.config.vocab_size, (batch_size, LENGTH), generator=made)
        ids = ids.to(accelerator.device)
        optimizer.zero_grad()
        accelerator.backward(model(input_ids=ids, labels=ids).loss)
        optimizer.step()
        tries[-1]["steps"] += 1


began = time.perf_counter()
train()
print("ANSWER " + json.dumps({"seconds": time.perf_counter() - began, "tries": tries}))
