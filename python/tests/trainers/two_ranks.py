"""One of two gloo ranks: a Trainer under DDP, with failures on one of them.

Usage: two_ranks.py TRIALS, with the variables that torchrun sets. Prints a JSON line for each trial.
"""

import json
import os
import random
import sys

import torch

from trainers.small_trainer import Faults, Watched, losses, made, quiet

RANK = int(os.environ["RANK"])


def one(trial):
    draw = random.Random(trial)
    point = ("forward", "backward", "step", "clip")[trial % 4]
    settings = {
        "gradient_accumulation_steps": draw.choice([1, 2]),
        "max_grad_norm": 1.0,
        "per_device_train_batch_size": 3,
        "ddp_backend": "gloo",
    }
    fails = draw.randrange(2) == RANK
    faults = Faults(
        point, [1 if point in ("step", "clip") else draw.randint(1, 3)] if fails else []
    )
    trainer = made("bert", 0.0, settings, seed=trial, faults=faults)
    with faults.around():
        watched = Watched(trainer).train()
    plain = made("bert", 0.0, settings, seed=trial)
    plain.train()
    flat = torch.cat([p.detach().reshape(-1) for p in trainer.model.parameters()])
    alone = torch.cat([p.detach().reshape(-1) for p in plain.model.parameters()])
    both = [torch.empty_like(flat) for _ in range(2)]
    torch.distributed.all_gather(both, flat)
    samples = sum(sum(sizes) for window in watched.windows for sizes in window)
    return {
        "point": point,
        "failed": faults.raised == int(fails),
        "samples": samples,
        "same": torch.equal(both[0], both[1]),
        "off": float((flat - alone).abs().max()),
        "losses": [losses(trainer), losses(plain)],
    }


quiet()
for number in range(int(sys.argv[1])):
    print(json.dumps(one(number)), flush=True)
torch.distributed.destroy_process_group()
# A process of gloo now and then aborts while the interpreter ends, with nothing of ours loaded.
os._exit(0)
