"""What one rank of a program takes of a real GPU, while its other ranks are pretended.

    python3 bench/gpu/fake_ranks.py --world 4 --output FILE [--set NAME=VALUE] [--events FILE] program.py ARGS

Collectives do nothing and every allocation is real: torch's "fake" group takes the place of NCCL. DDP
needs a group that answers: with --world 1 it is NCCL's of one rank, as buckets do not depend on ranks. The
peaks are those of the whole program, from its start. `--events` keeps what the allocator was asked for and what
it gave back, as gzipped JSON: [action, bytes, stream], streams numbered as they come.
"""

import argparse
import faulthandler
import gzip
import json
import os
import runpy
import sys


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--world", type=int, required=True)
    parser.add_argument("--output", required=True)
    parser.add_argument("--set", action="append", default=[], metavar="NAME=VALUE")
    parser.add_argument("--events")
    parser.add_argument("program", nargs=argparse.REMAINDER)
    given = parser.parse_args()
    faulthandler.enable()
    faulthandler.dump_traceback_later(100, exit=True)
    world = str(given.world)
    os.environ.update(
        RANK="0", LOCAL_RANK="0", WORLD_SIZE=world, LOCAL_WORLD_SIZE=world,
        MASTER_ADDR="127.0.0.1", MASTER_PORT="29500",
    )  # fmt: skip
    os.environ.update(dict(pair.split("=", 1) for pair in given.set))
    import torch
    import torch.distributed as dist
    from torch.testing._internal.distributed.fake_pg import FakeStore

    begin = dist.init_process_group

    def init_process_group(*_, **__):
        if given.world == 1:
            begin(backend="nccl", rank=0, world_size=1)
            return
        begin(backend="fake", store=FakeStore(), rank=0, world_size=given.world)

    dist.init_process_group = dist.distributed_c10d.init_process_group = init_process_group
    if given.events:
        torch.cuda.memory._record_memory_history(context=None, max_entries=1_000_000)
    sys.argv = given.program
    sys.path.insert(0, os.path.dirname(os.path.abspath(given.program[0])))
    failed = None
    try:
        runpy.run_path(given.program[0], run_name="__main__")
    except Exception as error:
        failed = f"{type(error).__name__}: {error}"[:2000]
    told = {
        "program": given.program,
        "world": given.world,
        "set": given.set,
        "failed": failed,
        "gpu": torch.cuda.get_device_name() if torch.cuda.is_available() else None,
        "torch": torch.__version__,
        "allocatedBytes": torch.cuda.max_memory_allocated(),
        "reservedBytes": torch.cuda.max_memory_reserved(),
    }
    if given.events:
        save_events(torch.cuda.memory._snapshot()["device_traces"][0], given.events)
    with open(given.output, "a", encoding="utf-8") as file:
        file.write(json.dumps(told) + "\n")


def save_events(events, path):
    streams = {}
    rows = [[e["action"], e["size"], streams.setdefault(e["stream"], len(streams))] for e in events]
    with gzip.open(path, "wt", encoding="utf-8") as file:
        json.dump(rows, file)


if __name__ == "__main__":
    main()
