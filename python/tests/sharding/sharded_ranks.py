"""One of two gloo ranks that share a model by FSDP2. Usage: sharded_ranks.py RANK PORT FOLDER FAILS_AT.

Trains on from its last checkpoint in FOLDER. In its first life the second rank runs out of memory in the
step FAILS_AT. Prints a JSON line for each step that it saved, and one for how it ended.
"""

import json
import logging
import os
import sys

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch.distributed.fsdp import fully_shard

sys.path.insert(0, sys.argv[5])
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../sdk"))
from injection import batch_of, build, out_of_memory

import plimsoll

RANK, PORT, FOLDER, FAILS_AT = int(sys.argv[1]), sys.argv[2], sys.argv[3], int(sys.argv[4])
STEPS, SAMPLES, RATE = 6, 8, 0.1
CHECKPOINT = os.path.join(FOLDER, f"rank{RANK}.pt")


def loss_of(model):
    return lambda b: F.cross_entropy(model(b[0]), b[1])


def batch_at(step, rank):
    return batch_of(100 * step + rank, SAMPLES)


def say(**told):
    print(json.dumps(told), flush=True)


def load(model):
    """Where to go on."""
    if not os.path.exists(CHECKPOINT):
        return 0
    kept = torch.load(CHECKPOINT)
    with torch.no_grad():
        for parameter, local in zip(model.parameters(), kept["locals"]):
            parameter.to_local().copy_(local)
    return kept["step"]


def save(model, step):
    locals_ = [p.to_local().detach().clone() for p in model.parameters()]
    torch.save({"step": step, "locals": locals_}, CHECKPOINT + ".part")
    os.replace(CHECKPOINT + ".part", CHECKPOINT)


def one_process():
    """The same training in one process, by hand: losses of this rank, and the weights."""
    model, _ = build(0, 0.0)
    losses = []
    for step in range(STEPS):
        model.zero_grad()
        both = [loss_of(model)(batch_at(step, rank)) for rank in range(2)]
        losses.append(float(both[RANK]))
        (sum(both) / 2).backward()
        with torch.no_grad():
            for parameter in model.parameters():
                parameter.sub_(RATE * parameter.grad)
    return losses, [p.detach() for p in model.parameters()]


def main():
    logging.getLogger("plimsoll").setLevel(logging.CRITICAL)
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=f"tcp://127.0.0.1:{PORT}", rank=RANK, world_size=2)
    model, _ = build(0, 0.0)
    losses, weights = one_process()
    failing = []

    def second_layer(*_):
        if failing:
            raise out_of_memory()

    model.layers[1].register_forward_pre_hook(second_layer)
    for layer in model.layers:
        fully_shard(layer)
    fully_shard(model)
    begin = load(model)
    optimizer = torch.optim.SGD(model.parameters(), lr=RATE)
    step = plimsoll.recovering(model, optimizer, loss_of(model), microbatch=4)
    try:
        for number in range(begin, STEPS):
            if begin == 0 and RANK == 1 and number == FAILS_AT:
                failing.append(True)
            loss = float(step(batch_at(number, RANK)))
            save(model, number + 1)
            say(step=number, parts=list(step.partition), off=abs(loss - losses[number]))
    except BaseException as error:
        say(ended=type(error).__name__)
        os._exit(1)
    whole = [p.full_tensor().detach() for p in model.parameters()]
    off = max(float((a - b).abs().max()) for a, b in zip(whole, weights))
    say(ended="done", off=off)
    os._exit(0)


main()
