"""A job whose card another process fills. Usage: part_neighbour.py driver|cublas.

driver: in the middle of training the card is full for some seconds. cublas: it is full before the first
matrix product, so that the library cannot make its handle.
"""

import logging
import math
import os
import subprocess
import sys
import time

import torch

from common import DEVICE, TINY, answer

import plimsoll

FILL = """
import sys, time, torch
kept = []
free, _ = torch.cuda.mem_get_info()
size = 2**28
left = int(sys.argv[1])
while size >= 2**20:
    free, _ = torch.cuda.mem_get_info()
    if free - size < left:
        size //= 2
        continue
    try:
        kept.append(torch.empty(size, dtype=torch.uint8, device='cuda'))
    except RuntimeError:
        size //= 2
print('full', torch.cuda.mem_get_info()[0], flush=True)
time.sleep(float(sys.argv[2]))
"""

way = sys.argv[1]
logging.basicConfig(level=logging.INFO, format="%(message)s", stream=sys.stderr)
torch.manual_seed(0)
width = 64 if TINY else 4096
model = torch.nn.Sequential(*[torch.nn.Linear(width, width) for _ in range(8)]).to(DEVICE)
optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
step = plimsoll.recovering(
    model, optimizer, lambda b: model(b).square().mean(), grow_after=3, patience=90
)
batch = torch.randn(64 if TINY else 32768, width, device=DEVICE)


def fill(left: int, seconds: float):
    if DEVICE != "cuda":
        return None
    torch.cuda.empty_cache()
    other = subprocess.Popen(
        [sys.executable, "-c", FILL, str(left), str(seconds)], stdout=subprocess.PIPE, text=True
    )
    print("neighbour:", other.stdout.readline().strip(), file=sys.stderr)
    return other


losses = []
other = None
if way == "driver":
    losses = [step(batch).item() for _ in range(3)]
    other = fill(2**30, 8)
else:
    other = fill(8 * 2**20, 8)
begin = time.perf_counter()
losses += [step(batch).item() for _ in range(5)]
took = time.perf_counter() - begin
while other is not None and other.poll() is None:
    time.sleep(0.2)
losses += [step(batch).item() for _ in range(20)]
kinds = sorted({event["kind"] for event in step.events if "kind" in event})
answer(
    recovered=len(losses) == (28 if way == "driver" else 25) and not any(map(math.isnan, losses)),
    kinds=kinds,
    recoveries=sum(event.get("action") in ("retry", "wait") for event in step.events),
    microbatchAtEnd=step.microbatch,
    batch=len(batch),
    secondsWhileFull=took,
    events=list(step.events)[-30:],
    pid=os.getpid(),
)
