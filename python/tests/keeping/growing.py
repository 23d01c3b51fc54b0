"""A loop whose memory grows, under the limit in PLIMSOLL_MEMORY_BYTES: what it kept, or its samples, get larger.

Arguments: CASE (kept, longer or batches), WAY ("ahead": as it is; "after": only after a failure), PACKAGE. Prints the
highest share of the limit while it ran, how often memory ran out, and the sizes; one JSON line.
"""

import ctypes
import json
import logging
import sys

import torch

case, way, package = sys.argv[1:]
sys.path.insert(0, package)

import plimsoll  # noqa: E402
from plimsoll.memory import host  # noqa: E402
from plimsoll.memory.gauge import HostGauge  # noqa: E402
from plimsoll.recovery.rules import decider, sizer  # noqa: E402

MIB = 2**20
# Tensors are mapped one by one: what a heap keeps of freed ones would differ from run to run.
M_MMAP_THRESHOLD = -3
ctypes.CDLL(None).mallopt(M_MMAP_THRESHOLD, MIB)
# Few steps that grow by much: most of the time of a step goes into mapping its memory.
STEPS, BATCH = 20, 64
# Every step is looked at, however fast the machine is.
sizer.LOOK_SECONDS = 0.0
torch.set_num_threads(1)
logging.disable(logging.CRITICAL)
if way == "after":
    decider.keep_below = lambda ahead: None

gauge = HostGauge()
limit = host.stated_limit()
weight = torch.nn.Parameter(torch.ones(1))


class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = weight

    def forward(self, batch):
        for _ in range(4):
            batch = torch.sin(batch * self.weight)
        return batch.mean()


def training():
    """Each sample keeps eight tensors of its size for backward."""
    model = Model()
    step = plimsoll.recovering(model, torch.optim.SGD(model.parameters(), lr=0.1), model)
    kept, sizes, highest = [], [], 0
    for number in range(STEPS):
        if case == "kept":
            kept.append(torch.ones(12 * MIB // 4))
        values = (160 + 36 * number if case == "longer" else 320) * 1024 // 4
        batch = torch.full((BATCH, values), 0.5)
        gauge.reset_peak()
        step(batch)
        highest = max(highest, gauge.peak_bytes())
        sizes.append(step.microbatch)
    failures = [one for one in step.events if "kind" in one]
    return {"failures": len(failures), "sizes": sizes, "highest": highest}


def feeding():
    """Batches whose results are kept, as a program does that embeds a corpus."""
    from plimsoll import batching

    batching.LOOK_SECONDS = 0.0
    if way == "after":
        batching.next_size = lambda size, largest, *_: size
    kept, sizes, highest = [], [], 0
    samples = plimsoll.batches(range(STEPS * BATCH), BATCH)
    for batch in samples:
        gauge.reset_peak()
        work = torch.ones(len(batch), 5 * MIB // 4)
        kept.append(work[:, : 75 * 1024].clone())
        del work
        highest = max(highest, gauge.peak_bytes())
        sizes.append(len(batch))
        if sum(sizes) >= 11 * BATCH:
            break
    return {"failures": 0, "sizes": sizes, "highest": highest}


before = gauge.used_bytes()
told = feeding() if case == "batches" else training()
told["share"] = told.pop("highest") / limit
print(json.dumps({**told, "startShare": before / limit}))
