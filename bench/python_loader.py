"""`plimsoll.loader` beside the default DataLoader on real work: images that are decoded and resized, small
tensors, and steps of a given time. Turn by turn; the middle of the ratios of all rounds. A busy machine
makes it worthless: let nothing else run.

    python bench/python_loader.py [--rounds 5] [--json]

Exit code 1 when it is slower than the default by more than a twentieth.
"""

import argparse
import io
import json
import os
import statistics
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "python"))

import numpy
import torch
from PIL import Image
from torch.utils.data import DataLoader, Dataset

import plimsoll

LEAST_RATIO = 0.95
# Threads of an operation would wait for one another on a busy machine; workers have one, too.
torch.set_num_threads(1)


class Pictures(Dataset):
    """JPEG files in memory, 480 x 360, decoded and resized to 224 x 224: work for a processor."""

    def __init__(self, count):
        draw = numpy.random.default_rng(1)
        file = io.BytesIO()
        small = Image.fromarray(draw.integers(0, 255, (45, 60, 3), dtype=numpy.uint8))
        small.resize((480, 360)).save(file, "JPEG")
        self.count, self.file = count, file.getvalue()

    def __len__(self):
        return self.count

    def __getitem__(self, index):
        with Image.open(io.BytesIO(self.file)) as image:
            pixels = numpy.array(image.resize((224, 224)))
        return torch.from_numpy(pixels).permute(2, 0, 1).float() / 255


class Small(Dataset):
    """Rows of a tensor: nothing to do."""

    def __init__(self, count):
        self.rows = torch.zeros(count, 32)

    def __len__(self):
        return len(self.rows)

    def __getitem__(self, index):
        return self.rows[index]


CASES = {
    "pictures, no step": (lambda: Pictures(320), 16, 0.0),
    "pictures, step of 50 ms": (lambda: Pictures(320), 16, 0.05),
    "small tensors, no step": (lambda: Small(20_000), 64, 0.0),
}


def seconds(data, step):
    """An epoch, after one that starts the workers."""
    begin = time.perf_counter()
    for _ in data:
        if step:
            time.sleep(step)
    return time.perf_counter() - begin


def compared(name, rounds):
    make, batch, step = CASES[name]
    dataset = make()
    plain = DataLoader(dataset, batch_size=batch, shuffle=True)
    ours = plimsoll.loader(dataset, batch_size=batch, shuffle=True, step_seconds=step or None)
    held = 0
    for number, _ in enumerate(ours):
        held = max(held, ours.worker_bytes()) if number % 10 == 0 else held
    times = {"plain": [], "ours": []}
    for number in range(rounds):
        # In turn first: what else the machine does must not favour one of them.
        for way in ("plain", "ours") if number % 2 else ("ours", "plain"):
            times[way].append(seconds(plain if way == "plain" else ours, step))
    ratio = statistics.median(a / b for a, b in zip(times["plain"], times["ours"]))
    return {
        "case": name, "workers": ours.workers, "reasons": ours.advice.reasons, "workerBytes": held,
        "defaultSeconds": statistics.median(times["plain"]), "seconds": statistics.median(times["ours"]),
        "ratio": ratio,
    }  # fmt: skip


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    results = [compared(name, options.rounds) for name in CASES]
    if options.json:
        print(
            json.dumps(
                {"results": results, "leastRatio": LEAST_RATIO, "source": "measured"}, indent=2
            )
        )
    else:
        for one in results:
            print(
                f"{one['case']:26} {one['workers']} workers  {one['defaultSeconds']:6.2f} s default  "
                f"{one['seconds']:6.2f} s ours  {one['ratio']:.2f} x  {one['workerBytes'] / 2**20:.0f} MiB of workers"
            )
            print(f"    {'; '.join(one['reasons'])}")
    sys.exit(0 if all(one["ratio"] >= LEAST_RATIO for one in results) else 1)


if __name__ == "__main__":
    main()
