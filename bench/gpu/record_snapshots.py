"""Records memory snapshots on a real GPU, each in a process of its own, and beside each what the
process itself reported (torch.cuda.memory_stats). Usage: record_snapshots.py OUT_FOLDER [NAME ...]

    plain        a small training loop
    expandable   the same with expandable segments
    streams      allocations on several streams, freed across them
    graphs       a CUDA graph with its private pool
    fragmented   a run that dies of a request smaller than what is free inside the allocator
    ring         a training loop whose recording has lost its beginning
    protocol5    the first one again, pickled with protocol 5
    large        at least 500 MB
"""

import gc
import json
import os
import pickle
import subprocess
import sys

MiB = 1024**2
everything = 100_000_000


def figures(torch, kept=None):
    stats = torch.cuda.memory_stats()
    result = {
        "allocated": stats["allocated_bytes.all.current"],
        "reserved": stats["reserved_bytes.all.current"],
        "active": stats["active_bytes.all.current"],
        "inactive_split": stats["inactive_split_bytes.all.current"],
        "requested": stats["requested_bytes.all.current"],
        "peak_allocated": stats["allocated_bytes.all.peak"],
        "peak_reserved": stats["reserved_bytes.all.peak"],
        "ooms": stats["num_ooms"],
    }
    result.update(kept or {})
    return result


def write(torch, folder, name, protocol=None, kept=None):
    """Figures and snapshot with nothing allocated or freed in between."""
    torch.cuda.synchronize()
    gc.collect()
    result = figures(torch, kept)
    snapshot = torch.cuda.memory._snapshot()
    with open(os.path.join(folder, f"{name}.pickle"), "wb") as file:
        pickle.dump(snapshot, file, protocol=protocol)
    result["events"] = sum(len(trace) for trace in snapshot["device_traces"])
    result["protocol"] = protocol or pickle.DEFAULT_PROTOCOL
    with open(os.path.join(folder, f"{name}.json"), "w") as file:
        json.dump(result, file)


def train(torch, steps, width=2048, depth=6):
    layers = []
    for _ in range(depth):
        layers += [torch.nn.Linear(width, width), torch.nn.GELU()]
    model = torch.nn.Sequential(*layers).cuda()
    optimizer = torch.optim.AdamW(model.parameters())
    for step in range(steps):
        batch = torch.randn(256 + 64 * (step % 3), width, device="cuda")
        loss = model(batch).square().mean()
        loss.backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
    return model, optimizer


def record(torch, entries=everything):
    torch.cuda.memory._record_memory_history(max_entries=entries)


def plain(torch, folder, name="plain", protocol=None):
    record(torch)
    kept = train(torch, 8)
    write(torch, folder, name, protocol)
    del kept


def protocol5(torch, folder):
    plain(torch, folder, "protocol5", 5)


def expandable(torch, folder):
    record(torch)
    kept = train(torch, 8)
    spare = [
        torch.empty(30 * MiB + 7 * MiB * i, dtype=torch.uint8, device="cuda") for i in range(6)
    ]
    del spare[::2]
    write(torch, folder, "expandable")
    del kept


def streams(torch, folder):
    record(torch)
    kept = []
    side = [torch.cuda.Stream() for _ in range(3)]
    for turn in range(40):
        stream = side[turn % 3]
        with torch.cuda.stream(stream):
            tensor = torch.empty((turn % 7 + 1) * 3 * MiB, dtype=torch.uint8, device="cuda")
            tensor.fill_(turn)
            if turn % 5 == 0:
                kept.append(tensor)
        # Used elsewhere: its free waits for that stream.
        tensor.record_stream(side[(turn + 1) % 3])
        del tensor
    write(torch, folder, "streams")


def graphs(torch, folder):
    record(torch)
    model = torch.nn.Sequential(*[torch.nn.Linear(1024, 1024) for _ in range(8)]).cuda()
    fixed = torch.randn(512, 1024, device="cuda")
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side), torch.no_grad():
        for _ in range(3):
            model(fixed)
    torch.cuda.current_stream().wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    with torch.no_grad(), torch.cuda.graph(graph):
        out = model(fixed)
    for _ in range(5):
        graph.replay()
    other = torch.empty(50 * MiB, dtype=torch.uint8, device="cuda")
    write(torch, folder, "graphs")
    del out, other


def fragmented(torch, folder):
    """Every second of many blocks is freed; what is asked for then fits into no gap."""
    total = torch.cuda.get_device_properties(0).total_memory
    torch.cuda.set_per_process_memory_fraction(4 * 1024 * MiB / total)
    record(torch)
    # Each pair shares a segment: the second half of it stays in use.
    pairs = []
    for _ in range(60):
        whole = torch.empty(60 * MiB, dtype=torch.uint8, device="cuda")
        pairs.append(whole)
    pairs.clear()
    kept = [torch.empty(31 * MiB, dtype=torch.uint8, device="cuda") for _ in range(60)]
    result = {}
    try:
        torch.empty(700 * MiB, dtype=torch.uint8, device="cuda")
    except torch.cuda.OutOfMemoryError as error:
        result["message"] = str(error)
    write(torch, folder, "fragmented", kept=result)
    del kept


def ring(torch, folder):
    record(torch, 2000)
    kept = train(torch, 60)
    write(torch, folder, "ring")
    del kept


def large(torch, folder):
    """Deep stacks and many small requests: about 6 million events."""
    record(torch)

    def deep(levels):
        if levels > 0:
            return deep(levels - 1)
        return torch.empty(1000 + 512 * (len(held) % 50), dtype=torch.uint8, device="cuda")

    held = []
    rounds = int(os.environ.get("LARGE_ROUNDS", "1900000"))
    for turn in range(rounds):
        held.append(deep(turn % 17))
        if len(held) > 400:
            del held[turn % 400]
    write(torch, folder, "large")


runs = {
    f.__name__: f for f in (plain, expandable, streams, graphs, fragmented, ring, protocol5, large)
}


def main():
    folder, names = sys.argv[1], sys.argv[2:] or list(runs)
    os.makedirs(folder, exist_ok=True)
    if os.environ.get("RECORD_ONE"):
        import torch

        torch.cuda.init()
        runs[names[0]](torch, folder)
        return
    for name in names:
        environment = dict(os.environ, RECORD_ONE="1")
        if name == "expandable":
            environment["PYTORCH_CUDA_ALLOC_CONF"] = "expandable_segments:True"
            environment["PYTORCH_ALLOC_CONF"] = "expandable_segments:True"
        done = subprocess.run(
            [sys.executable, __file__, folder, name], check=False, env=environment
        )
        path = os.path.join(folder, f"{name}.pickle")
        size = os.path.getsize(path) / 1e6 if os.path.exists(path) else 0
        print(f"{name}: exit {done.returncode}, {size:.1f} MB", flush=True)


if __name__ == "__main__":
    main()
