"""Random requests to the real caching allocator from several streams, with `record_stream`.

For each setting a fresh process. A block that another stream uses is freed while a kernel that sleeps
still runs there, so the allocator must keep it until the host has waited. Writes gzipped JSON:
{"torch", "device", "sequences": [{"conf", "capBytes", "steps": [[op, id, bytes, stream, allocated,
reserved, address]]}]}; op is 1 for an allocation (2 when it ran out of memory), 0 for a free, 3 for
`record_stream`, 4 for a wait of the host for all streams.
"""

import gzip
import json
import os
import random
import subprocess
import sys

CONFS = ["", "max_split_size_mb:64", "expandable_segments:True"]
CAPS = [None, 2 * 2**30]
STEPS = 1200
STREAMS = 4
# Some 50 ms on the H200; a whole turn of steps between two waits takes a few.
SLEEP_CYCLES = 90_000_000


def record(conf, cap, seed):
    import torch

    rng = random.Random(seed)
    torch.cuda.init()
    total = torch.cuda.get_device_properties(0).total_memory
    if cap is not None:
        torch.cuda.set_per_process_memory_fraction(cap / total, 0)
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
        held = [torch.cuda.memory_allocated(0), torch.cuda.memory_reserved(0)]
        steps.append([*step, *held, address])
    torch.cuda.synchronize()
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
            print(conf or "(default)", cap, len(sequences[-1]["steps"]), "steps")
    result = {
        "torch": torch.__version__,
        "device": torch.cuda.get_device_name(0),
        "sequences": sequences,
    }
    with gzip.open(sys.argv[1], "wt") as file:
        json.dump(result, file, separators=(",", ":"))


if __name__ == "__main__":
    main()
