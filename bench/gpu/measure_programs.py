"""What programs as they are take of a real GPU, from their start to their end, each in a process of its own.

    python3 bench/gpu/measure_programs.py unseen/m --output FILE [--carried FOLDER] [--parallel N]

Each program of the folder, or of the set with this name in bench/truth, runs as people start it, in an empty folder
that is removed afterwards; a folder with a `__main__.py` runs as `python -m` would run it. Packages that the machine
lacks are taken from --carried. Results are written as they come: peaks of allocated and reserved bytes, how long it
took, and how it ended. `--only NAME ...` chooses programs. `--events FOLDER` keeps, gzipped, all that the allocator
was asked for: [action, bytes, address, the innermost lines of Python as numbers in `lines`].
"""

import argparse
import glob
import json
import os
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor

import truth

PROGRAM_SECONDS = 200
# Runs inside the program's process: the peaks are told when it ends.
INSIDE = """
import gzip, json, os, runpy, sys
import torch
EVENTS = os.environ.get("MEASURE_EVENTS")
if EVENTS:
    torch.cuda.memory._record_memory_history(context="alloc", stacks="python", max_entries=600_000)
def kept():
    lines, events = {}, []
    for event in torch.cuda.memory._snapshot()["device_traces"][0]:
        if event["action"] == "free_requested":
            continue
        frames = [f"{f['filename']}:{f['line']}" for f in event.get("frames", [])[:6]]
        numbers = [lines.setdefault(frame, len(lines)) for frame in frames]
        events.append([event["action"], event["size"], event["addr"], *numbers])
    with gzip.open(EVENTS, "wt", encoding="utf-8") as file:
        json.dump({"lines": list(lines), "events": events}, file)
def reported():
    stats = torch.cuda.memory_stats()
    return {
        "allocatedBytes": stats["allocated_bytes.all.peak"],
        "reservedBytes": stats["reserved_bytes.all.peak"],
        "retries": stats["num_alloc_retries"],
        "gpu": torch.cuda.get_device_name(), "torch": torch.__version__,
    }
path = sys.argv[1]
sys.argv = sys.argv[1:]
sys.path[0] = os.path.dirname(path)
owner = os.getpid()
try:
    if os.path.isdir(path):
        runpy.run_module(os.path.basename(path), run_name="__main__", alter_sys=True)
    else:
        runpy.run_path(path, run_name="__main__")
finally:
    if os.getpid() == owner:
        print("PEAKS " + json.dumps(reported()), flush=True)
        if EVENTS:
            kept()
"""


def name_of(path):
    return os.path.splitext(os.path.basename(path))[0]


def measured(path, carried, events):
    environment = {**os.environ, "HF_HUB_OFFLINE": "1", "TOKENIZERS_PARALLELISM": "false"}
    if carried:
        environment["PYTHONPATH"] = os.path.abspath(carried)
    began = time.monotonic()
    answer = {"name": name_of(path)}
    if events:
        environment["MEASURE_EVENTS"] = os.path.join(
            os.path.abspath(events), f"{name_of(path)}.json.gz"
        )
    with tempfile.TemporaryDirectory() as folder:
        try:
            end = subprocess.run(
                [sys.executable, "-c", INSIDE, os.path.abspath(path)],
                check=False,
                cwd=folder,
                env=environment,
                capture_output=True,
                text=True,
                timeout=PROGRAM_SECONDS,
            )
        except subprocess.TimeoutExpired:
            return {**answer, "failed": f"longer than {PROGRAM_SECONDS} s"}
    answer["seconds"] = round(time.monotonic() - began, 1)
    peaks = [line for line in end.stdout.splitlines() if line.startswith("PEAKS ")]
    if peaks:
        answer |= json.loads(peaks[-1][6:])
    if end.returncode != 0:
        answer["failed"] = f"exit {end.returncode}: {end.stderr[-1500:]}"
    return answer


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("folder")
    parser.add_argument("--output", required=True)
    parser.add_argument("--carried")
    parser.add_argument("--events")
    parser.add_argument("--parallel", type=int, default=6)
    parser.add_argument("--only", nargs="+", default=[])
    given = parser.parse_args()
    if not os.path.isdir(given.folder):
        given.folder = os.path.join(truth.folder("programs"), given.folder)
    packages = glob.glob(os.path.join(given.folder, "*", "__main__.py"))
    paths = sorted(glob.glob(os.path.join(given.folder, "*.py")))
    paths += sorted(os.path.dirname(path) for path in packages)
    if given.only:
        paths = [path for path in paths if name_of(path) in given.only]
    if given.events:
        os.makedirs(given.events, exist_ok=True)
    answers = []
    with ThreadPoolExecutor(given.parallel) as pool:
        for answer in pool.map(lambda path: measured(path, given.carried, given.events), paths):
            answers.append(answer)
            print(json.dumps(answer)[:400], flush=True)
            with open(given.output, "w", encoding="utf-8") as file:
                json.dump(answers, file, indent=1)


if __name__ == "__main__":
    main()
