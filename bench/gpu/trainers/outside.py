"""Loops that cannot be split from outside, unchanged, under `plimsoll run --adapt`, limited to a third of their need.

Usage: outside.py OUTPUT.json PLIMSOLL_STARTER NANOGPT_FOLDER [--tiny] [--iterations N] [--only accelerate|nanogpt]
Each program runs without a limit, with it, and by hand with the settings that the limited one ended with. nanoGPT's
data are random numbers; with a limit it makes N iterations (11): a restart costs the same in a long run.
"""

import json
import os
import re
import statistics
import subprocess
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))
OUTPUT, STARTER, NANOGPT = sys.argv[1:4]
TINY = "--tiny" in sys.argv
ONLY = sys.argv[sys.argv.index("--only") + 1 :] if "--only" in sys.argv else []
ITERATIONS = sys.argv[sys.argv.index("--iterations") + 1] if "--iterations" in sys.argv else "11"
LONGEST_SECONDS = 300
FOLDER = tempfile.mkdtemp()
ITERATION = re.compile(r"^iter \d+: loss ([\d.]+), time ([\d.]+)ms", re.MULTILINE)
results = []


def random_data():
    folder = os.path.join(NANOGPT, "data", "random")
    os.makedirs(folder, exist_ok=True)
    for name in ("train.bin", "val.bin"):
        with open(os.path.join(folder, name), "wb") as file:
            # Two bytes a token; the second is small enough for the vocabulary of GPT-2.
            file.write(bytes(b % 190 if i % 2 else b for i, b in enumerate(os.urandom(2**20))))


def nanogpt(batch, accumulation, iterations=ITERATIONS):
    words = ["--dataset=random", "--compile=False", "--eval_iters=1", "--log_interval=1"]
    if TINY:
        words += ["--device=cpu", "--block_size=16", "--n_layer=2", "--n_head=2", "--n_embd=16"]
    out = f"--out_dir={os.path.join(FOLDER, 'out')}"
    sizes = [f"--batch_size={batch}", f"--gradient_accumulation_steps={accumulation}"]
    return [sys.executable, "train.py", *words, out, f"--max_iters={iterations}", *sizes]


def accelerate(batch, accumulation, *more):
    program = os.path.join(HERE, "programs", "accelerate_bert.py")
    sizes = ["--batch_size", str(batch), "--gradient_accumulation_steps", str(accumulation)]
    return [sys.executable, program, *sizes, "--steps", "12", *(["--tiny"] if TINY else []), *more]


def run(name, what, command, limit=None, folder=HERE, adapt=False):
    report = os.path.join(FOLDER, f"{name}-{len(results)}.json")
    options = ["--report", report, *(["--memory", str(limit)] if limit else [])]
    options += ["--adapt"] if adapt else []
    start = time.time()
    process = subprocess.Popen(
        ["node", STARTER, "run", *options, "--", *command],
        cwd=folder,
        env={**os.environ, "HF_HUB_OFFLINE": "1", "PLIMSOLL_HOME": os.path.join(FOLDER, "home")},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        printed, said = process.communicate(timeout=LONGEST_SECONDS)
    except subprocess.TimeoutExpired:
        # The supervisor passes it on to the program, and writes the report.
        process.terminate()
        printed, said = process.communicate()
    done = subprocess.CompletedProcess(command, process.returncode, printed, said)
    entry = {"name": name, "what": what, "exit": done.returncode, "limitBytes": limit}
    entry["seconds"] = time.time() - start
    with open(report, encoding="utf-8") as file:
        attempts = json.load(file)["attempts"]
    entry["attempts"] = attempts
    entry["said"] = [line for line in done.stderr.splitlines() if "plimsoll" in line][:30]
    if done.returncode != 0:
        entry["error"] = (done.stdout + done.stderr)[-1500:]
    found = ITERATION.findall(done.stdout)
    answers = [line for line in done.stdout.splitlines() if line.startswith("ANSWER ")]
    entry["answer"] = json.loads(answers[-1][7:]) if answers else None
    steps = [float(ms) / 1000 for _, ms in found[-11:]] or (entry["answer"] or {}).get(
        "stepSeconds", []
    )
    entry["medianStepSeconds"] = statistics.median(steps[2:]) if len(steps) > 2 else None
    results.append(entry)
    last = attempts[-1]
    rungs = [rung["rung"] for attempt in attempts for rung in attempt["rungs"]]
    print(
        f"{name} {what}: exit {done.returncode}, {len(attempts)} attempts, {entry['seconds']:.1f} s, "
        f"median step {1000 * (entry['medianStepSeconds'] or 0):.1f} ms, peak {last['peakBytes']}, "
        f"last command {' '.join(last['command'][-6:])}, rungs {rungs}",
        flush=True,
    )
    with open(f"{OUTPUT}.new", "w", encoding="utf-8") as file:
        json.dump(results, file, indent=1)
    os.replace(f"{OUTPUT}.new", OUTPUT)
    return entry


def third(entry):
    peak = entry["attempts"][-1]["peakBytes"]
    return peak if TINY else peak // 3


def measure_accelerate():
    whole = run("accelerate", "unlimited", accelerate(64, 2))
    run("accelerate", "limited", accelerate(64, 2), limit=third(whole), adapt=True)
    run("accelerate", "by hand", accelerate(64, 2, "--checkpointing"), limit=third(whole))


def measure_nanogpt():
    random_data()
    whole = run("nanogpt", "unlimited", nanogpt(12, 4, "11"), folder=NANOGPT)
    limit = third(whole)
    limited = run("nanogpt", "limited", nanogpt(12, 4), limit=limit, folder=NANOGPT, adapt=True)
    ended = limited["attempts"][-1]["settings"]
    command = nanogpt(ended["batch_size"], ended["accumulation"])
    run("nanogpt", "by hand", command, limit=limit, folder=NANOGPT)


for chosen, measure in (("accelerate", measure_accelerate), ("nanogpt", measure_nanogpt)):
    if not ONLY or chosen in ONLY:
        measure()

failed = [f"{entry['name']} {entry['what']}" for entry in results if entry["exit"] != 0]
if failed:
    sys.exit(f"failed: {', '.join(failed)}")
