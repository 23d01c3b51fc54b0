"""Traces the programs of forecast_programs.py, and models of bench/truth/configs, at several sizes, without a GPU.

Usage: trace_steps.py OUT.json.xz [--at-once 4]

Writes what each step allocates and frees: [number, bytes] for an allocation, -number for a free, in one flat list.
bench/forecast/make-series.mjs makes series from it.
"""

import argparse
import json
import lzma
import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
sys.path.insert(0, HERE)

from forecast_programs import PROGRAMS

# Factors of the usual batch and length.
TRAINED = [(1, 1), (0.5, 1), (2, 1), (4, 1), (1, 0.5), (1, 1.5), (1, 2), (1, 3)]
EVALUATED = [1, 3]
# Name, batch, length.
CONFIGS = [
    ("gpt2", 4, 256),
    ("bert-base", 8, 128),
    ("t5-base", 4, 128),
    ("vit-base", 8, 224),
    ("qwen2.5-0.5b", 2, 256),
    ("distilbert", 8, 256),
    ("opt-1.3b", 1, 256),
    ("swin-base", 4, 224),
]
# Smaller allocations do not show in a series.
LEAST_BYTES = 128 * 1024


def jobs():
    """Name, mode, factors, and the arguments of the tracer."""
    for place, (name, (_, _, batch, length)) in enumerate(PROGRAMS.items()):
        script = ["--script", os.path.join(HERE, "forecast_programs.py"), "--arg", f"name={name}"]
        optimizer = ["--optimizer", ("adamw", "sgd", "sgd-momentum")[place % 3]]
        for mode, more, less in sizes():
            size = [f"batch={max(1, int(batch * more))}", f"length={int(length * less)}"]
            given = [*script, "--mode", mode, "--arg", size[0], "--arg", size[1]]
            yield name, mode, more, less, given + optimizer * (mode == "train")
    for place, (name, batch, length) in enumerate(CONFIGS):
        config = ["--config", os.path.join(ROOT, "bench", "truth", "configs", f"{name}.json")]
        optimizer = ["--optimizer", ("adamw", "adafactor", "sgd-momentum")[place % 3]]
        for mode, more, less in sizes():
            size = ["--batch", str(max(1, int(batch * more))), "--seq", str(int(length * less))]
            given = [*config, "--mode", mode, *size]
            yield name, mode, more, less, given + optimizer * (mode == "train")


def sizes():
    yield from (("train", more, less) for more, less in TRAINED)
    yield from (("infer", more, 1) for more in EVALUATED)


def condensed(text):
    built, steps, numbers = [], {}, {}
    events, count = built, 0
    for line in text.splitlines():
        event = json.loads(line)
        if isinstance(event, dict):
            continue
        kind, first, *rest = event
        if kind == "m" and first.startswith("step:"):
            events = steps.setdefault(int(first.split(":")[1]), [])
        elif kind == "a" and rest[0] >= LEAST_BYTES:
            count += 1
            numbers[first] = count
            events += [count, rest[0]]
        elif kind == "f" and first in numbers:
            events.append(-numbers.pop(first))
    return {"built": built, "steps": [steps[step] for step in sorted(steps)]}


def traced(job):
    name, mode, batch, length, given = job
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": os.path.join(ROOT, "python")}
    done = subprocess.run(
        [sys.executable, "-m", "plimsoll.trace", *given],
        capture_output=True,
        text=True,
        env=environment,
        check=False,
    )
    if done.returncode:
        print("not traced:", name, mode, batch, length, done.stdout[-200:])
        return None
    return {
        "program": name,
        "mode": mode,
        "batch": batch,
        "length": length,
        **condensed(done.stdout),
    }


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("out")
    parser.add_argument("--at-once", type=int, default=4)
    given = parser.parse_args()
    with ThreadPoolExecutor(given.at_once) as pool:
        found = [one for one in pool.map(traced, jobs()) if one]
    with lzma.open(given.out, "wt") as file:
        json.dump(found, file, separators=(",", ":"))
    print(len(found), "traced")


if __name__ == "__main__":
    main()
