"""Pinned memory with and without the pool, on a real GPU: time to get a staging buffer and copy a batch to
the card, and the pinned memory that is held. Without a GPU it says so and ends.

    python3 bench/gpu/pools/pinned.py [--rounds 30] [--json FILE]
"""

import argparse
import json
import os
import statistics
import sys
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "..", "..", "python"))

import torch

import plimsoll

MIB = 2**20


def fresh(_, source):
    """torch.empty(pin_memory=True) each time: PyTorch keeps and reuses what was freed, in powers of two."""
    staging = torch.empty(source.shape, dtype=source.dtype, pin_memory=True)
    staging.copy_(source)
    return staging.cuda(non_blocking=True), None


def pin_each(_, source):
    """tensor.pin_memory(), as DataLoader(pin_memory=True) does."""
    return source.pin_memory().cuda(non_blocking=True), None


def pooled(pool, source):
    staging = pool.take(tuple(source.shape), dtype=source.dtype, pinned=True)
    staging.copy_(source)
    return staging.cuda(non_blocking=True), staging


def pageable(_, source):
    return source.cuda(), None


WAYS = {"pageable": pageable, "torch.empty": fresh, "pin_memory()": pin_each, "pool": pooled}


def host_bytes():
    """Pinned memory that PyTorch holds; None where this version does not tell."""
    read = getattr(torch.cuda, "host_memory_stats", None)
    found = read() if read else {}
    return found.get("allocated_bytes.current")


def measured(way, sizes, rounds):
    pool = plimsoll.pool(limit=8 * 2**30)
    sources = [torch.empty(size // 4).normal_() for size in sizes]
    empty = getattr(torch._C, "_host_emptyCache", None) or getattr(
        torch._C, "_cuda_host_emptyCache", None
    )
    if empty:
        empty()
    before, first, times = host_bytes(), None, []
    for number in range(rounds):
        source = sources[number % len(sources)]
        torch.cuda.synchronize()
        begin = time.perf_counter()
        moved, staging = WAYS[way](pool, source)
        torch.cuda.synchronize()
        took = time.perf_counter() - begin
        if staging is not None:
            pool.give(staging)
        del moved, staging
        first = took if first is None else first
        times.append(took)
    after = host_bytes()
    return {
        "way": way,
        "firstMilliseconds": 1000 * first,
        "medianMilliseconds": 1000 * statistics.median(times[len(sources) :]),
        "longestLaterMilliseconds": 1000 * max(times[len(sources) :]),
        "pinnedMiB": None if after is None or before is None else (after - before) / MIB,
        "pool": pool.statistics(),
    }


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--rounds", type=int, default=30)
    parser.add_argument("--json", default="")
    options = parser.parse_args()
    if not torch.cuda.is_available():
        print("no CUDA device here: pinned memory cannot be measured")
        return
    torch.zeros(1).cuda()
    cases = {
        "one size, 16 MiB": [16 * MIB],
        "one size, 300 MiB": [300 * MIB],
        "last batch smaller, 150 and 90 MiB": [150 * MIB, 150 * MIB, 150 * MIB, 90 * MIB],
        "sizes that vary, 65 to 128 MiB": [mib * MIB for mib in (65, 70, 80, 96, 110, 128)],
    }
    results = {
        "torch": torch.__version__,
        "device": torch.cuda.get_device_name(),
        "hostMemoryStats": sorted(getattr(torch.cuda, "host_memory_stats", dict)())[:60],
        "cases": {},
    }
    for name, sizes in cases.items():
        print(f"{name}: milliseconds, first / median / longest later; pinned MiB")
        rows = [measured(way, sizes, options.rounds) for way in WAYS]
        for row in rows:
            times = (
                row["firstMilliseconds"],
                row["medianMilliseconds"],
                row["longestLaterMilliseconds"],
            )
            print(f"  {row['way']:14}", *(f"{one:10.2f}" for one in times), row["pinnedMiB"])
        results["cases"][name] = rows
    if options.json:
        with open(options.json, "w", encoding="utf-8") as file:
            json.dump(results, file, indent=2)


if __name__ == "__main__":
    main()
