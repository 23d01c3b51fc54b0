"""One of two gloo ranks: steps with failures at random points on one of them.

Usage: two_ranks.py RANK PORT TRIALS. Prints a JSON line: what went wrong (nothing), and how long
ranks waited for one another.
"""

import json
import logging
import os
import random
import sys
import time

import torch
import torch.distributed as dist
import torch.nn.functional as F
from injection import Faults, batch_of, build, cheap_collection, gradients_at_step
from torch.nn.parallel import DistributedDataParallel

sys.path.insert(0, sys.argv[4])
import plimsoll

RANK, PORT, TRIALS = int(sys.argv[1]), sys.argv[2], int(sys.argv[3])
POINTS = {"forward": 3, "backward": 6, "step": 1}


def expected(seed, counts):
    """What DDP computes: the mean over ranks of each one's mean gradient."""
    total = None
    for rank, count in enumerate(counts):
        model, _ = build(seed, 0.0)
        batch = batch_of(1000 * seed + rank, count)
        F.cross_entropy(model(batch[0]), batch[1]).backward()
        grads = [p.grad / len(counts) for p in model.parameters()]
        total = grads if total is None else [a + b for a, b in zip(total, grads)]
    return total


def one(trial):
    draw = random.Random(trial)
    phase = draw.choice(["forward", "backward", "step"])
    failing = draw.randrange(2)
    counts = [draw.randint(4, 16) for _ in range(2)]
    microbatch = draw.randint(2, 16)
    model, _ = build(trial, 0.0)
    wrapped = DistributedDataParallel(model)
    optimizer = torch.optim.AdamW(wrapped.parameters(), lr=1e-2, foreach=True)
    taken = gradients_at_step(optimizer)
    first = 0 if phase == "step" else draw.randrange(POINTS[phase])
    faults = Faults(phase, [first] if failing == RANK else [])
    faults.watch(model)
    step = plimsoll.recovering(
        wrapped,
        optimizer,
        lambda b: F.cross_entropy(wrapped(b[0]), b[1]),
        microbatch=microbatch,
        backup="always",
    )
    begin = time.monotonic()
    with faults.in_step():
        step(batch_of(1000 * trial + RANK, counts[RANK]))
    took = time.monotonic() - begin
    close = all(
        float((a - b).abs().max()) < 1e-6 for a, b in zip(taken[-1], expected(trial, counts))
    )
    flat = torch.cat([p.detach().reshape(-1) for p in model.parameters()])
    both = [torch.empty_like(flat) for _ in range(2)]
    dist.all_gather(both, flat)
    return {
        "exact": close,
        "same": torch.equal(both[0], both[1]),
        "once": sum(step.partition) == counts[RANK],
        "failed": faults.raised == (failing == RANK),
        "seconds": took,
        "phase": phase,
    }


def main():
    logging.getLogger("plimsoll").setLevel(logging.ERROR)
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=f"tcp://127.0.0.1:{PORT}", rank=RANK, world_size=2)
    cheap_collection()
    done = [one(trial) for trial in range(TRIALS)]
    wrong = [
        (i, r)
        for i, r in enumerate(done)
        if not all(r[k] for k in ("exact", "same", "once", "failed"))
    ]
    print(
        json.dumps(
            {"trials": len(done), "wrong": wrong, "longest": max(r["seconds"] for r in done)}
        )
    )
    dist.destroy_process_group()
    # A process of gloo now and then aborts while the interpreter ends ("terminate called without an
    # active exception"), one in thirty with PyTorch 2.11 and nothing of ours loaded.
    sys.stdout.flush()
    os._exit(0)


main()
