"""What the recorders of random requests to the real caching allocator share: a fresh process for each setting
and cap, and one gzipped JSON of all: {"torch", "device", "sequences": [{"conf", "capBytes", "steps": [...]}]}.
"""

import gzip
import json
import os
import subprocess
import sys


def limited(cap):
    """Limits PyTorch to `cap` bytes of the card, and answers the bytes of the card."""
    import torch

    torch.cuda.init()
    total = torch.cuda.get_device_properties(0).total_memory
    if cap is not None:
        torch.cuda.set_per_process_memory_fraction(cap / total, 0)
    return total


def held(address):
    """What the allocator holds now, as the end of a step."""
    import torch

    return [torch.cuda.memory_allocated(0), torch.cuda.memory_reserved(0), address]


def record_all(record, confs, caps):
    """Calls `record(cap, seed)`, which answers the steps and the bytes of the card, in a process for each
    setting and cap. The script is started with the file to write.
    """
    if len(sys.argv) > 2:
        conf, cap, seed = json.loads(sys.argv[2])
        steps, total = record(cap, seed)
        share = None if cap is None else cap / total
        found = {"conf": conf, "capBytes": cap, "capFraction": share, "totalBytes": total}
        print(json.dumps({**found, "steps": steps}))
        return
    import torch

    sequences = []
    for conf in confs:
        for seed, cap in enumerate(caps):
            done = _in_own_process(conf, cap, seed)
            if done.returncode != 0:
                print(conf, cap, done.stderr.strip().splitlines()[-1:], file=sys.stderr)
                continue
            sequences.append(json.loads(done.stdout.splitlines()[-1]))
            steps = sequences[-1]["steps"]
            refused = sum(step[0] == 2 for step in steps)
            print(conf or "(default)", cap, len(steps), "steps,", refused, "refused")
    device = torch.cuda.get_device_name(0)
    with gzip.open(sys.argv[1], "wt") as file:
        result = {"torch": torch.__version__, "device": device, "sequences": sequences}
        json.dump(result, file, separators=(",", ":"))


def _in_own_process(conf, cap, seed):
    env = {**os.environ, "PYTORCH_CUDA_ALLOC_CONF": conf, "PYTORCH_ALLOC_CONF": conf}
    if not conf:
        del env["PYTORCH_CUDA_ALLOC_CONF"], env["PYTORCH_ALLOC_CONF"]
    arguments = [sys.executable, sys.argv[0], "-", json.dumps([conf, cap, seed])]
    return subprocess.run(arguments, check=False, env=env, capture_output=True, text=True)
