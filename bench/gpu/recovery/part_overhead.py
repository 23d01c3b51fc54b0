"""What it costs: a plain loop beside the recovering step and the reports to a supervisor, in turns.

Usage: part_overhead.py [auto]. With `auto` this process was started with the reporting hook.
"""

import statistics
import sys

import torch

from common import TINY, answer, gpt2, seconds, tokens

import plimsoll

batch, rounds, each = (2, 2, 2) if TINY else (16, 12, 10)
torch.set_float32_matmul_precision("high")
model = gpt2()
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-5, fused=True)
data = tokens(10**6, batch, model.config.vocab_size)


def loss_of(part):
    with torch.autocast(data["input_ids"].device.type, dtype=torch.bfloat16):
        return model(**part).loss


def plain():
    loss_of(data).backward()
    optimizer.step()
    optimizer.zero_grad(set_to_none=True)


step = plimsoll.recovering(model, optimizer, loss_of)
ways = {"plain": plain, "recovering": lambda: step(data)}
times = {name: [] for name in ways}
for run in ways.values():
    for _ in range(5):
        run()
for _ in range(rounds):
    for name, run in ways.items():
        begin = seconds()
        for _ in range(each):
            run()
        times[name].append((seconds() - begin) / each)
middle = {name: statistics.median(found) for name, found in times.items()}
bridge = sys.modules.get("plimsoll.bridge.connection")
connected = bridge is not None and bridge.current() is not None
answer(**{f"{name}Seconds": value for name, value in middle.items()}, connected=connected)
