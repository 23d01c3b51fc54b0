"""Programs as they are, limited to a third of what they need: losses, time and recoveries beside the usual ways.

Usage: measure.py OUTPUT.json PLIMSOLL_FOLDER [--tiny] [--only NAME ...]
The limit is the one that `plimsoll run --memory` sets: the share of the card that PyTorch's allocator may take.
"""

import json
import os
import statistics
import subprocess
import sys
import time

HERE = os.path.dirname(os.path.abspath(__file__))
OUTPUT, PACKAGE = sys.argv[1:3]
TINY = ["--tiny"] if "--tiny" in sys.argv else []
ONLY = sys.argv[sys.argv.index("--only") + 1 :] if "--only" in sys.argv else []
LIMIT_SECONDS = 100
STEPS = ["--steps", "3" if TINY else "14"]
# name: (program, its words, batch, accumulation)
PROGRAMS = {
    "bert": ("hugging_face.py", ["bert"], 128, 1),
    "gpt2": ("hugging_face.py", ["gpt2"], 16, 4),
    "t5": ("hugging_face.py", ["t5"], 128, 2),
    "vit": ("lightning_vit.py", [], 128, 2),
    "vit-bf16": ("lightning_vit.py", ["--precision", "bf16-mixed"], 256, 1),
}
results = []


def run(name, what, words, program, limit=None, plimsoll=True):
    environment = {**os.environ, "HF_HUB_OFFLINE": "1", "TOKENIZERS_PARALLELISM": "false"}
    paths = [os.path.join(HERE, "carried")]
    if plimsoll:
        paths.insert(0, os.path.join(PACKAGE, "_auto"))
        environment["PLIMSOLL_MEMORY_BYTES"] = str(limit or 2**43)
    environment["PYTHONPATH"] = os.pathsep.join(paths)
    report = f"{OUTPUT}.steps"
    command = [
        sys.executable, os.path.join(HERE, "observe.py"), report,
        os.path.join(HERE, "programs", program), *words, *STEPS, *TINY,
    ]  # fmt: skip
    began = time.time()
    try:
        done = subprocess.run(
            command,
            env=environment,
            capture_output=True,
            text=True,
            timeout=LIMIT_SECONDS,
            check=False,
        )
        code, said, printed = done.returncode, done.stderr, done.stdout
    except subprocess.TimeoutExpired as error:
        code, said, printed = "timeout", str(error.stderr or ""), str(error.stdout or "")
    lines = [line for line in printed.splitlines() if line.startswith("ANSWER ")]
    entry = {
        "name": name,
        "what": what,
        "words": words,
        "limitBytes": limit,
        "exit": code,
        "wholeSeconds": time.time() - began,
        "answer": json.loads(lines[-1][7:]) if lines else None,
        "said": [line for line in said.splitlines() if "plimsoll:" in line][:40],
    }
    if code != 0:
        entry["error"] = said[-1500:]
    if os.path.exists(report):
        with open(report, encoding="utf-8") as file:
            entry["steps"] = json.load(file)
        os.remove(report)
    results.append(entry)
    with open(OUTPUT, "w", encoding="utf-8") as file:
        json.dump(results, file, indent=1)
    shown = entry["answer"] or {}
    print(
        f"{name} {what}: exit {code}, {entry['wholeSeconds']:.0f} s, training {shown.get('seconds', 0):.2f} s, "
        f"median step {statistics.median(shown.get('stepSeconds') or [0]) * 1000:.1f} ms",
        flush=True,
    )
    return entry


def sizes(batch, accumulation):
    return ["--batch", str(batch), "--accumulation", str(accumulation)]


def used(entry):
    """The size of the parts at the end."""
    steps = entry.get("steps") or [{}]
    return steps[0].get("microbatch")


def evenly(batch, size):
    """(largest part, parts) when a batch is cut into as few parts as fit."""
    parts = -(-batch // size)
    return -(-batch // parts), parts


def compare(name):
    program, words, batch, accumulation = PROGRAMS[name]
    whole = run(name, "unlimited", words + sizes(batch, accumulation), program, plimsoll=False)
    peak = (whole["answer"] or {}).get("peakReservedBytes")
    limit = peak // 3 if peak else None
    limited = run(name, "limited", words + sizes(batch, accumulation), program, limit)
    size = used(limited)
    if size:
        part, parts = evenly(batch, size)
        by_hand = words + sizes(part, accumulation * parts)
        run(name, "by hand", by_hand, program, limit, plimsoll=True)
    return limit


began = time.time()
for name in ONLY or PROGRAMS:
    if time.time() - began > 290:
        print(f"{name}: left out, no time")
        continue
    limit = compare(name)
    if name == "bert":
        words = ["bert", *sizes(128, 1)]
        run(name, "auto_find_batch_size", [*words, "--auto-find"], "hugging_face.py", limit)
        for _ in range(2):
            run(name, "overhead: with", words, "hugging_face.py")
            run(name, "overhead: without", words, "hugging_face.py", plimsoll=False)
    if name == "gpt2":
        run(name, "find_executable_batch_size", ["--batch", "16"], "find_executable.py", limit)
