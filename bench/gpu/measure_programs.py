"""What programs as they are take of a real GPU, from their start to their end, each in a process of its own.

    python3 bench/gpu/measure_programs.py bench/truth/programs/fresh --output FILE [--carried FOLDER] [--parallel N]

Each program of the folder runs as people start it, in an empty folder that is removed afterwards. Packages that
the machine lacks are taken from --carried. Results are written as they come: peaks of allocated and reserved bytes,
how long it took, and how it ended. `--only NAME ...` chooses programs.
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

PROGRAM_SECONDS = 200
# Runs inside the program's process: the peaks are told when it ends.
INSIDE = """
import json, os, runpy, sys
import torch
def told():
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
    runpy.run_path(path, run_name="__main__")
finally:
    if os.getpid() == owner:
        print("PEAKS " + json.dumps(told()), flush=True)
"""


def measured(path, carried):
    environment = {**os.environ, "HF_HUB_OFFLINE": "1", "TOKENIZERS_PARALLELISM": "false"}
    if carried:
        environment["PYTHONPATH"] = os.path.abspath(carried)
    began = time.monotonic()
    answer = {"name": os.path.splitext(os.path.basename(path))[0]}
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
    parser.add_argument("--parallel", type=int, default=6)
    parser.add_argument("--only", nargs="+", default=[])
    given = parser.parse_args()
    paths = sorted(glob.glob(os.path.join(given.folder, "*.py")))
    if given.only:
        paths = [p for p in paths if os.path.splitext(os.path.basename(p))[0] in given.only]
    answers = []
    with ThreadPoolExecutor(given.parallel) as pool:
        for answer in pool.map(lambda path: measured(path, given.carried), paths):
            answers.append(answer)
            print(json.dumps(answer)[:400], flush=True)
            with open(given.output, "w", encoding="utf-8") as file:
                json.dump(answers, file, indent=1)


if __name__ == "__main__":
    main()
