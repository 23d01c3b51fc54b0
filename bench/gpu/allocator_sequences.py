"""Random requests to the real caching allocator, with what it held after each of them.

For each setting a fresh process: sequences of allocations and frees, some under a cap, so that the
simulated allocator can be held against the real one, step by step. A step is [op, id, bytes, allocated,
reserved, address]; op is 1 for an allocation (2 when it ran out of memory), 0 for a free.
"""

import random

from sequences import held, limited, record_all

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


def record(cap, seed):
    import torch

    rng = random.Random(seed)
    total = limited(cap)
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
        steps.append([*step, *held(address)])
    return steps, total


if __name__ == "__main__":
    record_all(record, CONFS, CAPS)
