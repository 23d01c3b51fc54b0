"""What the caching allocator is asked for, drained into one list of events with marks between phases."""

import gzip
import json
import os

FRAMES = 3
ACTIONS = {
    "alloc": "alloc",
    "free_completed": "free",
    "segment_alloc": "segment_alloc",
    "segment_free": "segment_free",
}


class Recording:
    """Drains the allocator's history at each mark, so that events and marks stay in order."""

    def __init__(self, case):
        import torch

        torch.cuda.init()
        # Frames cannot be gathered while the exception that ends a recomputation early is on its way.
        context = None if case["checkpointing"] else "all"
        torch.cuda.memory._record_memory_history(
            max_entries=1_000_000, context=context, stacks="python"
        )
        self.case = case
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
            self.events.append([action, entry["size"], entry["addr"]])
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

    def save(self, folder):
        import torch

        result = {
            "id": self.case["id"],
            "peak_allocated": torch.cuda.max_memory_allocated(),
            "peak_reserved": torch.cuda.max_memory_reserved(),
            "stacks": self.stacks,
            "events": self.events,
        }
        name = self.case["id"].replace("/", "_") + ".json.gz"
        with gzip.open(os.path.join(folder, name), "wt") as file:
            json.dump(result, file)
        return result
