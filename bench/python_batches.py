"""10 million samples through plimsoll.batches beside a plain loop of fixed batches, in the same run.

Usage: python3 bench/python_batches.py [SAMPLES]. Prints the ratio of throughputs (with and without a
saved position) and how much memory grew. Processor time in short rounds, each way in turn: a ratio is
the median over rounds, each held against the plain loop beside it, so that a busy machine counts little.
"""

import os
import statistics
import sys
import tempfile
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "python"))

import plimsoll
from plimsoll.memory.host import resident_bytes

SAMPLES = int(sys.argv[1]) if len(sys.argv) > 1 else 10_000_000
BATCH = 32
ROUNDS = 50


class Dataset:
    """Samples made when they are asked for, as a dataset that does not fit in memory does."""

    def __init__(self, count):
        self.count = count

    def __len__(self):
        return self.count

    def __getitem__(self, index):
        if not 0 <= index < self.count:
            raise IndexError(index)
        return index, index & 7


def plain(dataset):
    total = 0
    for start in range(0, len(dataset), BATCH):
        batch = [dataset[i] for i in range(start, min(len(dataset), start + BATCH))]
        total += len(batch)
    return total


def ours(dataset, **options):
    return sum(len(batch) for batch in plimsoll.batches(dataset, batch_size=BATCH, **options))


def seconds(work, dataset):
    begin = time.process_time()
    assert work(dataset) == len(dataset)
    return time.process_time() - begin


def main():
    with tempfile.TemporaryDirectory() as folder:
        names = iter(range(10**6))
        ways = {
            "plain loop": plain,
            "plimsoll.batches": ours,
            "with a saved position": lambda d: ours(
                d, position=os.path.join(folder, str(next(names)))
            ),
        }
        dataset = Dataset(SAMPLES // ROUNDS)
        taken = {name: [] for name in ways}
        for work in ways.values():
            work(Dataset(100_000))
        before = resident_bytes()
        highest = before
        for _ in range(ROUNDS):
            for name, work in ways.items():
                taken[name].append(seconds(work, dataset))
                highest = max(highest, resident_bytes())
    print(f"{SAMPLES} samples each way, batches of {BATCH}, {ROUNDS} rounds")
    for name, times in taken.items():
        ratio = statistics.median(plain / own for plain, own in zip(taken["plain loop"], times))
        speed = len(dataset) / statistics.median(times) / 1e6
        print(f"{name:24} {speed:6.2f} million samples/s   {ratio:5.2f} x plain")
    print(
        f"memory grew by {(highest - before) / 2**20:.1f} MiB (from {before / 2**20:.1f} MiB; measured)"
    )


main()
