"""Programs as they are, limited to a third of what they need: losses, time and recoveries beside the usual ways.

Usage: measure.py OUTPUT.json PLIMSOLL_FOLDER [--tiny] [--repeats N] [--carried FOLDER] [--only NAME ...]
Packages that the machine does not have are taken from the folder of --carried. Results are written as they come.
With --repeats the limited program and the one started by hand run N times, in turn.
The limit is the one that `plimsoll run --memory` sets: the share of the card that PyTorch's allocator may take.
Programs of one stage import together, which takes most of their time; then they train one after another.
What our guard costs without a failure is measured by overhead.py.
"""

import json
import os
import statistics
import subprocess
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))
OUTPUT, PACKAGE = sys.argv[1:3]
TINY = ["--tiny"] if "--tiny" in sys.argv else []
REPEATS = int(sys.argv[sys.argv.index("--repeats") + 1]) if "--repeats" in sys.argv else 1
ONLY = sys.argv[sys.argv.index("--only") + 1 :] if "--only" in sys.argv else []
# name: (program, its words, batch, accumulation, steps)
PROGRAMS = {
    "bert": ("hugging_face.py", ["bert", "--precision", "bf16"], 128, 1, 14),
    "bert-fp16": ("hugging_face.py", ["bert", "--precision", "fp16"], 128, 1, 14),
    "bert-dropout": ("hugging_face.py", ["bert", "--dropout", "0.1"], 64, 1, 14),
    "gpt2": ("hugging_face.py", ["gpt2"], 16, 4, 10),
    "t5": ("hugging_face.py", ["t5"], 128, 2, 10),
    "sft": ("trl_sft.py", [], 16, 2, 24),
    "vit": ("lightning_vit.py", [], 128, 2, 10),
    "vit-bf16": ("lightning_vit.py", ["--precision", "bf16-mixed"], 256, 1, 14),
    "vit-prepared": ("lightning_vit.py", ["--precision", "bf16-mixed", "--prepared"], 256, 1, 60),
}
UNKNOWN = [name for name in ONLY if name not in PROGRAMS]
if UNKNOWN:
    sys.exit(f"no such program: {', '.join(UNKNOWN)}; there are {', '.join(PROGRAMS)}")
CHOSEN = [name for name in PROGRAMS if not ONLY or name in ONLY]
CARRIED = sys.argv[sys.argv.index("--carried") + 1] if "--carried" in sys.argv else None
results = []


class Job:
    def __init__(self, name, what, batch, accumulation, *more, limit=None, plimsoll=True):
        program, words, *_, usual = PROGRAMS[name]
        self.name, self.what, self.limit = name, what, limit
        self.words = [*words, "--batch", str(batch), "--accumulation", str(accumulation), *more]
        self.report = os.path.join(tempfile.mkdtemp(), "steps.json")
        environment = {**os.environ, "HF_HUB_OFFLINE": "1", "TOKENIZERS_PARALLELISM": "false"}
        paths = [os.path.abspath(CARRIED)] if CARRIED else []
        if plimsoll:
            paths.insert(0, os.path.join(PACKAGE, "_auto"))
            environment["PLIMSOLL_MEMORY_BYTES"] = str(limit or 2**43)
        environment["PYTHONPATH"] = os.pathsep.join(paths)
        self.errors = open(f"{self.report}.errors", "w+", encoding="utf-8")  # noqa: SIM115
        number = "3" if TINY else str(usual)
        path = os.path.join(HERE, "programs", program)
        observe = [sys.executable, os.path.join(HERE, "observe.py"), self.report]
        self.process = subprocess.Popen(
            [*observe, path, *self.words, "--steps", number, *TINY],
            env=environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self.errors,
            text=True,
        )

    def ready(self):
        while self.process.poll() is None:
            if self.process.stdout.readline().strip() == "READY":
                return

    def run(self, limit_seconds=90):
        start = time.time()
        try:
            printed, _ = self.process.communicate("go\n", timeout=limit_seconds)
        except subprocess.TimeoutExpired:
            self.process.kill()
            printed, _ = self.process.communicate()
        return self.entry(printed, time.time() - start)

    def entry(self, printed, seconds):
        answers = [line for line in printed.splitlines() if line.startswith("ANSWER ")]
        entry = {
            "name": self.name,
            "what": self.what,
            "words": self.words,
            "limitBytes": self.limit,
            "exit": self.process.returncode,
            "seconds": seconds,
            "answer": json.loads(answers[-1][7:]) if answers else None,
        }
        self.errors.seek(0)
        said = self.errors.read()
        self.errors.close()
        entry["said"] = [line for line in said.splitlines() if "plimsoll:" in line][:40]
        if self.process.returncode != 0:
            entry["error"] = said[-1500:]
        if os.path.exists(self.report):
            with open(self.report, encoding="utf-8") as file:
                entry.update(json.load(file))
        return entry


def stage(jobs):
    for job in jobs:
        job.ready()
    done = []
    for job in jobs:
        entry = job.run()
        done.append(entry)
        results.append(entry)
        save()
        shown = entry["answer"] or {}
        median = statistics.median(shown.get("stepSeconds") or [0])
        print(
            f"{entry['name']} {entry['what']}: exit {entry['exit']}, training {shown.get('seconds', 0):.2f} s, "
            f"median step {median * 1000:.1f} ms",
            flush=True,
        )
    return {entry["name"]: entry for entry in done}


def save():
    """Whole or not at all: it may be read, or cut off, at any time."""
    with open(f"{OUTPUT}.new", "w", encoding="utf-8") as file:
        json.dump(results, file, indent=1)
    os.replace(f"{OUTPUT}.new", OUTPUT)


def evenly(batch, size):
    """(largest part, parts) when a batch is cut into as few parts as fit."""
    parts = -(-batch // size)
    return -(-batch // parts), parts


def sizes(name):
    return PROGRAMS[name][2:4]


def third(entry):
    peak = (entry["answer"] or {}).get("peakReservedBytes")
    return peak // 3 if peak else None


# With dropout no two runs are the same: what another seed changes is the noise that the limited run may have.
stage(
    [
        Job(name, "another seed", *sizes(name), "--seed", "1", plimsoll=False)
        for name in CHOSEN
        if "dropout" in name
    ]
)
whole = stage([Job(name, "unlimited", *sizes(name), plimsoll=False) for name in CHOSEN])
limits = {name: third(entry) for name, entry in whole.items()}
limited = stage([Job(name, "limited", *sizes(name), limit=limits[name]) for name in CHOSEN])
turns = []
for name, entry in limited.items():
    size = (entry.get("steps") or [{}])[0].get("microbatch")
    if size:
        batch, accumulation = sizes(name)
        part, parts = evenly(batch, size)
        for turn in range(REPEATS):
            turns.append(Job(name, "by hand", part, accumulation * parts, limit=limits[name]))
            if turn < REPEATS - 1:
                turns.append(Job(name, "limited", batch, accumulation, limit=limits[name]))
if "bert" in CHOSEN:
    words = [*sizes("bert"), "--auto-find"]
    turns.append(Job("bert", "auto_find_batch_size", *words, limit=limits["bert"]))
if "vit" in CHOSEN:
    turns.append(Job("vit", "BatchSizeFinder", *sizes("vit"), "--find", limit=limits["vit"]))
stage(turns)
# Searches for a batch may fail: how they end is what is measured.
failed = [
    f"{entry['name']} {entry['what']}"
    for entry in results
    if entry["exit"] != 0 and entry["what"] not in ("auto_find_batch_size", "BatchSizeFinder")
]
if failed:
    sys.exit(f"failed: {', '.join(failed)}")
