"""A program that knows nothing of Plimsoll: GPT-2 with dropout in a loop of its own.

Its second word limits what it may add to its data.
"""

import json
import resource
import sys

import torch
from transformers import GPT2Config, GPT2LMHeadModel

torch.set_num_threads(1)
torch.manual_seed(0)
LENGTH, WORDS, BATCH = 64, 100, 48
config = GPT2Config(
    vocab_size=WORDS,
    n_embd=96,
    n_layer=12,
    n_head=2,
    n_positions=LENGTH,
    bos_token_id=1,
    eos_token_id=2,
)
model = GPT2LMHeadModel(config).train()
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
if len(sys.argv) > 2:
    with open("/proc/self/status", encoding="utf-8") as file:
        held = next(int(line.split()[1]) for line in file if line.startswith("VmData")) * 1024
    resource.setrlimit(resource.RLIMIT_DATA, (held + int(sys.argv[2]), resource.RLIM_INFINITY))
losses = []
for step in range(2):
    ids = torch.randint(3, WORDS, (BATCH, LENGTH), generator=torch.Generator().manual_seed(step))
    loss = model(input_ids=ids, labels=ids).loss
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
    losses.append(float(loss))
print(json.dumps({"losses": losses, "checkpointing": model.is_gradient_checkpointing}))
