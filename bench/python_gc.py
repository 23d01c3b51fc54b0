"""Pauses of Python's garbage collector in a training loop with many Python objects: Python's defaults
beside `plimsoll.schedule_gc()`, each in a process of its own, turn by turn.

    python bench/python_gc.py [--rounds 5] [--steps 6000] [--json]

Exit code 1 when the total or the longest pause is not at least 47 % less.
"""

import argparse
import json
import os
import resource
import statistics
import subprocess
import sys
import time
from collections import deque

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "python"))

import plimsoll
from plimsoll.leaks.collection import PauseMeter

TARGET = 0.47
FIGURES = (
    "collections", "totalSeconds", "longestSeconds", "startSeconds", "processorSeconds", "peakBytes",
)  # fmt: skip


def dataset(samples=200_000):
    """Annotations as most loaders keep them: dicts and lists."""
    return [{"id": n, "box": [n, n + 1, n + 2, n + 3], "tags": {"a": n}} for n in range(samples)]


class Node:
    """A step of a graph: knows its inputs, and one of them knows it. A cycle of four a step, as hooks make."""

    def __init__(self, inputs):
        self.inputs = inputs
        self.made = [self]


def train(data, steps):
    """Batches are made of small objects, wait in a queue as those of a loader do, and are freed by their
    last use; a record of each step is kept.
    """
    history, queue = [], deque()
    for step in range(steps):
        chosen = (data[(step * 997 + at) % len(data)] for at in range(256))
        queue.append([{"id": one["id"], "box": list(one["box"]), "size": (1, 2)} for one in chosen])
        if len(queue) > 8:
            batch = queue.popleft()
            node = Node([Node([]) for _ in range(3)])
            history.append(
                {"step": step, "loss": sum(one["box"][0] for one in batch), "of": len(node.inputs)}
            )
    return history


def pass_of(way, steps):
    """Pauses of the loop, in processor time of the thread that collects: others on the machine do not count."""
    data = dataset()
    start = PauseMeter(clock=time.thread_time)
    pauses = PauseMeter(clock=time.thread_time)
    with start:
        schedule = plimsoll.schedule_gc(every=1.0) if way == "schedule_gc" else None
    begin = time.process_time()
    with pauses:
        train(data, steps)
    took = time.process_time() - begin
    if schedule is not None:
        schedule.stop()
    found = pauses.report()
    found["startSeconds"] = start.report()["totalSeconds"]
    found["processorSeconds"] = took
    found["peakBytes"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    print(json.dumps(found))


def measured(way, steps):
    ran = subprocess.run(
        [sys.executable, os.path.abspath(__file__), "--way", way, "--steps", str(steps)],
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    return json.loads(ran.stdout)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--steps", type=int, default=6000)
    parser.add_argument("--way", default="")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    if options.way:
        pass_of(options.way, options.steps)
        return
    found = {"default": [], "schedule_gc": []}
    for _ in range(options.rounds):
        for way, passes in found.items():
            passes.append(measured(way, options.steps))
    middle = {
        way: {key: statistics.median(one[key] for one in passes) for key in FIGURES}
        for way, passes in found.items()
    }
    less = {
        key: 1 - middle["schedule_gc"][key] / middle["default"][key]
        for key in ("totalSeconds", "longestSeconds")
    }
    if options.json:
        print(
            json.dumps({**middle, "less": less, "target": TARGET, "source": "measured"}, indent=2)
        )
    else:
        for way, one in middle.items():
            print(
                f"{way:12} {one['collections']:6.0f} collections  {1000 * one['totalSeconds']:8.1f} ms in all  "
                f"{1000 * one['longestSeconds']:7.1f} ms the longest  "
                f"{1000 * one['startSeconds']:6.1f} ms once before the loop  "
                f"{one['processorSeconds']:6.2f} s processor time  {one['peakBytes'] / 2**20:6.0f} MiB at most"
            )
        shown = {key: f"{100 * share:.0f} %" for key, share in less.items()}
        print(f"less pause: {shown['totalSeconds']} in all, {shown['longestSeconds']} the longest")
    sys.exit(0 if min(less.values()) >= TARGET else 1)


if __name__ == "__main__":
    main()
