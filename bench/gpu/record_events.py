"""All that the caching allocator is asked for in a few measured cases, in order, with its stacks.

    python3 bench/gpu/record_events.py bench/fresh/cases.json OUTPUT_FOLDER ID [ID ...] [--configs FOLDER]

One gzipped file a case, in the form of bench/truth/events: from the first parameter to the end of
step 3, with marks between the phases; the peaks count from the mark `ready`.
"""

import argparse
import gc
import gzip
import json
import os
import subprocess
import sys

from measure_cases import build, run_steps

STEPS = 3
FRAMES = 3
ACTIONS = {
    "alloc": "alloc",
    "free_completed": "free",
    "segment_alloc": "segment_alloc",
    "segment_free": "segment_free",
}


class Recording:
    """Drains the allocator's history at each mark, so that events and marks stay in order."""

    def __init__(self):
        self.events, self.stacks, self.known, self.live, self.count = [], [], {}, {}, 0

    def mark(self, name):
        import torch

        torch.cuda.synchronize()
        history = torch.cuda.memory._snapshot()["device_traces"][0]
        for entry in history[self.count :]:
            self.add(entry)
        self.count = len(history)
        if name:
            self.events.append(["mark", name])

    def add(self, entry):
        action = ACTIONS.get(entry["action"])
        if action in ("segment_alloc", "segment_free"):
            self.events.append([action, entry["size"]])
        elif action == "alloc":
            ident = len(self.events) + 1
            self.live[entry["addr"]] = ident
            self.events.append(["alloc", ident, entry["size"], self.stack(entry.get("frames", []))])
        elif action == "free":
            self.events.append(["free", self.live.pop(entry["addr"], 0)])

    def stack(self, frames):
        named = [f for f in frames if f["filename"].endswith(".py")][:FRAMES]
        key = " < ".join(
            f"{os.path.basename(f['filename'])}:{f['line']}:{f['name']}" for f in named
        )
        if key not in self.known:
            self.known[key] = len(self.stacks)
            self.stacks.append(key)
        return self.known[key]


def record(case, options):
    import torch

    torch.cuda.init()
    # Frames cannot be gathered while the exception that ends a recomputation early is on its way.
    context = None if case["checkpointing"] else "all"
    torch.cuda.memory._record_memory_history(
        max_entries=1_000_000, context=context, stacks="python"
    )
    recording = Recording()
    made = build(case, options)
    recording.mark("built")
    gc.collect()
    torch.cuda.empty_cache()
    torch.cuda.reset_peak_memory_stats()
    recording.mark("ready")
    run_steps(case, made, STEPS)
    recording.mark("end")
    result = {
        "id": case["id"],
        "peak_allocated": torch.cuda.max_memory_allocated(),
        "peak_reserved": torch.cuda.max_memory_reserved(),
        "stacks": recording.stacks,
        "events": recording.events,
    }
    name = case["id"].replace("/", "_") + ".json.gz"
    with gzip.open(os.path.join(options.output, name), "wt") as file:
        json.dump(result, file)
    print(case["id"], result["peak_allocated"], result["peak_reserved"], len(result["events"]))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("cases")
    parser.add_argument("output")
    parser.add_argument("ids", nargs="+")
    parser.add_argument("--configs", default="bench/fresh/configs")
    parser.add_argument("--scripts", default="bench/fresh/scripts")
    options = parser.parse_args()
    with open(options.cases) as file:
        cases = {case["id"]: case for case in json.load(file)}
    if len(options.ids) == 1:
        record(cases[options.ids[0]], options)
        return
    command = [sys.executable, __file__, options.cases, options.output]
    folders = ["--configs", options.configs, "--scripts", options.scripts]
    running = [subprocess.Popen([*command, one, *folders]) for one in options.ids]
    sys.exit(max(process.wait() for process in running))


if __name__ == "__main__":
    main()
