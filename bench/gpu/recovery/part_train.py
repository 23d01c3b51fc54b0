"""Trains GPT-2 through a recovering step. Usage: part_train.py free|capped|grows BATCH.

free: no limit. capped: 8 GiB. grows: 8 GiB for the first third, then 20 GiB: the size grows back.
"""

import logging
import sys

import torch

from common import (
    CAP_BYTES,
    GIB,
    LONGER_AT,
    STEPS,
    TINY,
    answer,
    cap,
    gpt2,
    peak_bytes,
    seconds,
    tokens,
)

import plimsoll

way, batch = sys.argv[1], int(sys.argv[2])
logging.basicConfig(level=logging.INFO, format="%(message)s", stream=sys.stderr)
if way != "free":
    cap(CAP_BYTES)
model = gpt2()
optimizer = torch.optim.AdamW(model.parameters(), lr=3e-4)
step = plimsoll.recovering(
    model, optimizer, lambda b: model(**b).loss, grow_after=3 if way == "grows" else 20
)
vocabulary = model.config.vocab_size
steps = 4 * STEPS if way == "grows" and not TINY else STEPS
losses, sizes, times = [], [], []
highest = 0
for number in range(steps):
    if way == "grows" and number == steps // 3:
        cap(20 * GIB)
    data = tokens(number if way != "grows" else LONGER_AT, batch, vocabulary)
    begin = seconds()
    losses.append(step(data).item())
    times.append(seconds() - begin)
    sizes.append(max(step.partition))
    # The step resets the allocator's peak to measure sizes; the highest of all counts.
    highest = max(highest, peak_bytes())
answer(
    losses=losses,
    sizes=sizes,
    times=times,
    recoveries=sum(event.get("action") == "retry" for event in step.events),
    events=list(step.events),
    peakBytes=highest,
    line=step.report()["peakLine"],
)
