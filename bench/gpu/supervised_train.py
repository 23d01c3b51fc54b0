"""A plain training loop of GPT-2 124M, with no line of ours in it, to be supervised on a GPU.

    plimsoll run --memory 8GiB --batch-size 64 --report report.json -- \
        python3 bench/gpu/supervised_train.py --batch-size {batch_size} --accumulate {accumulation}
"""

import argparse

import torch
from transformers import GPT2Config, GPT2LMHeadModel

STEPS = 12

parser = argparse.ArgumentParser()
parser.add_argument("--batch-size", type=int, required=True)
parser.add_argument("--accumulate", type=int, default=1)
given = parser.parse_args()

torch.manual_seed(0)
config = GPT2Config(resid_pdrop=0.0, embd_pdrop=0.0, attn_pdrop=0.0, use_cache=False)
model = GPT2LMHeadModel(config).to("cuda")
optimizer = torch.optim.AdamW(model.parameters(), lr=3e-4)
for step in range(STEPS):
    made = torch.Generator().manual_seed(step)
    rows = given.batch_size * given.accumulate
    ids = torch.randint(0, config.vocab_size, (rows, 512), generator=made).to("cuda")
    total = 0.0
    for part in ids.split(given.batch_size):
        loss = model(input_ids=part, labels=part).loss * (len(part) / rows)
        loss.backward()
        total += loss.item()
    optimizer.step()
    optimizer.zero_grad(set_to_none=True)
    print(f"step {step + 1} loss {total:.5f}", flush=True)
