"""The same training under accelerate's find_executable_batch_size, as its documentation shows it.

The batch that a step is taken with stays the same: accumulation is raised by hand, which the decorator
does not do. Usage: part_accelerate.py BATCH.
"""

import sys
import time

import torch
from accelerate.utils import find_executable_batch_size

from common import CAP_BYTES, STEPS, answer, cap, gpt2, seconds, tokens

whole = int(sys.argv[1])
cap(CAP_BYTES)
begun = time.perf_counter()
starts, done_in_all, useful_from = [], [0], [0.0]


@find_executable_batch_size(starting_batch_size=whole)
def train(batch_size):
    starts.append(batch_size)
    useful_from[0] = time.perf_counter()
    model = gpt2()
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-4)
    losses = []
    for number in range(STEPS):
        data = tokens(number, whole, model.config.vocab_size)
        total = 0.0
        for start in range(0, whole, batch_size):
            part = {key: value[start : start + batch_size] for key, value in data.items()}
            loss = model(**part).loss * (len(part["input_ids"]) / whole)
            loss.backward()
            total += loss.item()
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        losses.append(total)
        done_in_all[0] += 1
    return losses


losses = train()
ended = seconds()
answer(
    losses=losses,
    restarts=len(starts) - 1,
    batchSizes=starts,
    stepsRepeated=done_in_all[0] - STEPS,
    lostSeconds=useful_from[0] - begun,
    seconds=ended - begun,
)
