"""Random requests to the real caching allocator from several streams, with `record_stream`.

For each setting a fresh process. A block that another stream uses is freed while a kernel that sleeps
still runs there, so the allocator must keep it until the host has waited. A step is [op, id, bytes, stream,
allocated, reserved, address]; op is 1 for an allocation (2 when it ran out of memory), 0 for a free, 3 for
`record_stream`, 4 for a wait of the host for all streams.
"""

import random

from sequences import held, limited, record_all

CONFS = ["", "max_split_size_mb:64", "expandable_segments:True"]
CAPS = [None, 2 * 2**30]
STEPS = 1200
STREAMS = 4
# Some 50 ms on the H200; a whole turn of steps between two waits takes a few.
SLEEP_CYCLES = 90_000_000


def record(cap, seed):
    import torch

    rng = random.Random(seed)
    total = limited(cap)
    streams = [torch.cuda.default_stream(), *(torch.cuda.Stream() for _ in range(STREAMS - 1))]
    live, steps = {}, []
    since = 0
    for number in range(STEPS):
        draw = rng.random()
        since += 1
        if since >= 15:
            since = 0
            torch.cuda.synchronize()
            step, address = [4, 0, 0, 0], 0
        elif live and draw < 0.12:
            identity = rng.choice(sorted(live))
            tensor, own = live[identity]
            other = rng.choice([s for s in range(STREAMS) if s != own])
            with torch.cuda.stream(streams[other]):
                torch.cuda._sleep(SLEEP_CYCLES)
            tensor.record_stream(streams[other])
            del tensor
            step, address = [3, identity, 0, other], 0
        elif live and draw < 0.12 + (0.33 if len(live) < 60 else 0.45):
            identity = rng.choice(sorted(live))
            del live[identity]
            step, address = [0, identity, 0, 0], 0
        else:
            size = int(2 ** rng.uniform(9, 27.5))
            stream = rng.randrange(STREAMS)
            try:
                with torch.cuda.stream(streams[stream]):
                    tensor = torch.empty(size, dtype=torch.uint8, device="cuda")
                live[number] = (tensor, stream)
                address = tensor.data_ptr()
                del tensor
                step = [1, number, size, stream]
            except torch.cuda.OutOfMemoryError:
                address = 0
                step = [2, number, size, stream]
        steps.append([*step, *held(address)])
    torch.cuda.synchronize()
    return steps, total


if __name__ == "__main__":
    record_all(record, CONFS, CAPS)
