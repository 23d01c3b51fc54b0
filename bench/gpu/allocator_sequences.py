"""Random requests to the real caching allocator, with what it held after each of them.

For each setting a fresh process: sequences of allocations and frees, some under a cap, so that the
simulated allocator can be held against the real one, step by step. Writes gzipped JSON:
{"torch", "device", "sequences": [{"conf", "capBytes", "steps": [[op, id, bytes, allocated,
reserved, address]]}]}; op is 1 for an allocation (2 when it ran out of memory), 0 for a free.
"""

import gzip
import json
import os
import random
import subprocess
import sys

CONFS = [
    "",
    "max_split_size_mb:64",
    "roundup_power2_divisions:4",
    "garbage_collection_threshold:0.6",
    "expandable_segments:True",
    "max_split_size_mb:128,roundup_power2_divisions:8",
]
CAPS = [None, 2 * 2**30, 3 * 2**29]
STEPS = 1500


def record(conf, cap, seed):
    import torch

    rng = random.Random(seed)
    torch.cuda.init()
    total = torch.cuda.get_device_properties(0).total_memory
    if cap is not None:
        torch.cuda.set_per_process_memory_fraction(cap / total, 0)
    live, steps = [], []
    for number in range(STEPS):
        grow = rng.random() < (0.62 if len(live) < 60 else 0.48)
        if live and not grow:
            identity, pointer = live.pop(rng.randrange(len(live)))
            torch.cuda.caching_allocator_delete(pointer)
            step = [0, identity, 0]
            address = 0
        else:
            size = int(2 ** rng.uniform(9, 27.5))
            try:
                address = torch.cuda.caching_allocator_alloc(size, 0, 0)
                live.append((number, address))
                step = [1, number, size]
            except torch.cuda.OutOfMemoryError:
                address = 0
                step = [2, number, size]
        held = [torch.cuda.memory_allocated(0), torch.cuda.memory_reserved(0)]
        steps.append([*step, *held, address])
    return {
        "conf": conf,
        "capBytes": cap,
        "capFraction": None if cap is None else cap / total,
        "totalBytes": total,
        "steps": steps,
    }


def main():
    if len(sys.argv) > 2:
        conf, cap, seed = json.loads(sys.argv[2])
        print(json.dumps(record(conf, cap, seed)))
        return
    import torch

    sequences = []
    for conf in CONFS:
        for seed, cap in enumerate(CAPS):
            env = {**os.environ, "PYTORCH_CUDA_ALLOC_CONF": conf, "PYTORCH_ALLOC_CONF": conf}
            if not conf:
                del env["PYTORCH_CUDA_ALLOC_CONF"], env["PYTORCH_ALLOC_CONF"]
            arguments = [sys.executable, __file__, "-", json.dumps([conf, cap, seed])]
            done = subprocess.run(arguments, check=False, env=env, capture_output=True, text=True)
            if done.returncode != 0:
                print(conf, cap, done.stderr.strip().splitlines()[-1:], file=sys.stderr)
                continue
            sequences.append(json.loads(done.stdout.splitlines()[-1]))
            steps = sequences[-1]["steps"]
            refused = sum(step[0] == 2 for step in steps)
            print(conf or "(default)", cap, len(steps), "steps,", refused, "refused")
    result = {
        "torch": torch.__version__,
        "device": torch.cuda.get_device_name(0),
        "sequences": sequences,
    }
    with gzip.open(sys.argv[1], "wt") as file:
        json.dump(result, file, separators=(",", ":"))


if __name__ == "__main__":
    main()
