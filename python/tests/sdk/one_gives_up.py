"""One of two gloo ranks; the second never fits and gives up. Usage: one_gives_up.py RANK PORT ddp|fsdp.

Prints what ended this rank: the point is that something did.
"""

import logging
import sys

import torch
import torch.distributed as dist
import torch.nn.functional as F
from injection import batch_of, build, out_of_memory
from torch.nn.parallel import DistributedDataParallel

sys.path.insert(0, sys.argv[4])
import plimsoll

RANK, PORT, WAY = int(sys.argv[1]), sys.argv[2], sys.argv[3]


def main():
    logging.getLogger("plimsoll").setLevel(logging.CRITICAL)
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=f"tcp://127.0.0.1:{PORT}", rank=RANK, world_size=2)
    model, _ = build(0, 0.0)
    if WAY == "fsdp":
        from torch.distributed.fsdp import fully_shard

        for layer in model.layers:
            fully_shard(layer)
        model = fully_shard(model)
        inner = model
    else:
        inner, model = model, DistributedDataParallel(model)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
    broken = []

    def second_layer(*_):
        if RANK == 1 and broken:
            raise out_of_memory()

    inner.layers[1].register_forward_pre_hook(second_layer)
    step = plimsoll.recovering(
        model, optimizer, lambda b: F.cross_entropy(model(b[0]), b[1]), microbatch=4
    )
    step(batch_of(RANK, 8))
    print("stepped", step.partition, flush=True)
    broken.append(True)
    try:
        step(batch_of(RANK, 8))
        print("went on", flush=True)
    except BaseException as error:
        print("ended", type(error).__name__, getattr(error, "code", ""), flush=True)


main()
