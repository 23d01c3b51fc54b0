"""Leaks GPU memory at an even rate until the driver refuses, then prints when that was."""

import json
import sys
import time

import torch

bytes_per_second = float(sys.argv[1]) * 2**30
chunk = 256 * 2**20
kept = []
begin = time.time()
torch.zeros(1, device="cuda")
print(json.dumps({"startedAt": time.time()}), flush=True)
try:
    while True:
        kept.append(torch.empty(chunk, dtype=torch.uint8, device="cuda"))
        due = begin + len(kept) * chunk / bytes_per_second
        time.sleep(max(0.0, due - time.time()))
except torch.cuda.OutOfMemoryError:
    print(json.dumps({"outOfMemoryAt": time.time(), "keptBytes": len(kept) * chunk}), flush=True)
    time.sleep(5)
