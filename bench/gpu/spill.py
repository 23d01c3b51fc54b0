# ruff: noqa: E501, C408, E741, PLC3002, PLR0915, RUF100, SIM115
"""How long steps take with less memory than they need: unmodified programs, beside what people do by hand.

python3 bench/gpu/spill.py [NAME...] [--cards FOLDER] [--at-once N]   prints the table; one JSON line a program
python3 bench/gpu/spill.py --program NAME [--tiny]   one program; --tiny on the host, to try it

Programs are started at once and build their models at once; one at a time has the card.
"""

from __future__ import annotations

import argparse
import contextlib
import fcntl
import gc
import json
import math
import os
import statistics
import subprocess
import sys
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.environ.get("PLIMSOLL_PYTHON", os.path.join(HERE, "..", "..", "python")))

from spill_programs import programs  # noqa: E402 - found beside this file

STEPS = 12
# The first ones find their kernels, and are measured.
WARM = 5
SHARES = {"0.75": 0.75, "0.50": 0.5, "0.33": 1 / 3}
ANCHORS = ("checkpointed", "save_on_cpu", "offloaded")
ORDER = ["unlimited", "unlimited again", "idle", *SHARES, *ANCHORS]


# What people do by hand, each in a line or some of their program.
def offloaded(torch, ahead=2):
    """Two streams, all or nothing, as libraries of recipes do it: every saved tensor of 1 KiB and more."""
    out, back = torch.cuda.Stream(), torch.cuda.Stream()
    kept, order = {}, []

    def pack(t):
        if (
            t.numel() * t.element_size() < 1024
            or isinstance(t, torch.nn.Parameter)
            or (t._base is not None and isinstance(t._base, torch.nn.Parameter))
        ):
            return t
        out.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(out):
            host = torch.empty(t.size(), dtype=t.dtype, pin_memory=True)
            host.copy_(t, non_blocking=True)
        event = out.record_event()
        key = len(order)
        order.append(host)
        kept[key] = (t, event)
        for old in [k for k in kept if k <= key - ahead]:
            _, done = kept.pop(old)
            torch.cuda.current_stream().wait_event(done)
        return key

    def unpack(p):
        if not isinstance(p, int):
            return p
        if p in kept:
            return kept.pop(p)[0]
        back.wait_stream(out)
        with torch.cuda.stream(back):
            t = order[p].to("cuda", non_blocking=True)
        torch.cuda.current_stream().wait_stream(back)
        t.record_stream(torch.cuda.current_stream())
        return t

    @contextlib.contextmanager
    def around():
        order.clear()
        kept.clear()
        with torch.autograd.graph.saved_tensors_hooks(pack, unpack):
            yield

    return around


@contextlib.contextmanager
def all_checkpointed(torch, model):
    """Each layer of each list of layers of one class."""
    from torch.utils.checkpoint import checkpoint

    changed = []
    for part in model.modules():
        layers = (
            list(part.children())
            if isinstance(part, (torch.nn.ModuleList, torch.nn.Sequential))
            else []
        )
        kinds = {type(one) for one in layers}
        if (
            len(layers) > 1
            and len(kinds) == 1
            and not any(l is m for l in layers for m, _ in changed)
        ):
            for layer in layers:
                if any(layer in list(m.modules()) for m, _ in changed):
                    continue
                real = layer.forward
                layer.forward = (
                    lambda real: lambda *a, **k: checkpoint(real, *a, use_reentrant=False, **k)
                )(real)
                changed.append((layer, real))
    try:
        yield
    finally:
        for layer, _ in changed:
            del layer.forward


def run_one(name, tiny, modes=None, peak=0):
    os.environ["SPILL_TINY"] = "1" if tiny else "0"
    import torch

    torch.manual_seed(0)
    torch.backends.cuda.matmul.allow_tf32 = "tf32" in name
    build, batch_of, loop_of = programs()[name]()
    start = {key: value.clone() for key, value in build.state_dict().items()}
    device = "cpu" if tiny else "cuda"
    rows = []
    lock = open(os.path.join(os.environ.get("SPILL_LOCK", "/tmp"), "spill.lock"), "w")
    fcntl.flock(lock, fcntl.LOCK_EX)
    began = time.time()
    model = build.to(device)
    batch = batch_of(device)

    def measure(mode, cap=None, around=None, spilling=None, steps=STEPS):
        with torch.no_grad():
            for key, value in model.state_dict().items():
                value.copy_(start[key])
        model.train()
        for p in model.parameters():
            p.grad = None
        torch.manual_seed(0)
        gc.collect()
        row = {"program": name, "mode": mode, "cap": cap}
        handle = None
        if not tiny:
            torch.cuda.empty_cache()
            torch.cuda.reset_peak_memory_stats()
            torch.cuda.set_per_process_memory_fraction(1.0)
            total = torch.cuda.get_device_properties(0).total_memory
            before = torch.cuda.memory_stats()["num_alloc_retries"]
        try:
            if spilling is not None:
                handle = spilling(cap)
            elif cap and not tiny:
                torch.cuda.set_per_process_memory_fraction(min(1.0, cap / total))
            _, step = loop_of(model, batch)
            losses, times = [], []
            for _ in range(steps):
                if not tiny:
                    torch.cuda.synchronize()
                t = time.perf_counter()
                with around() if around else contextlib.nullcontext():
                    value = step()
                if not tiny:
                    torch.cuda.synchronize()
                times.append(time.perf_counter() - t)
                losses.append(value)
            # The machine is one of several users of the bus: what the quiet half of the steps took.
            row["seconds"] = statistics.median(times[min(WARM, len(times) // 2) :])
            row["times"] = [round(one, 4) for one in times]
            row["losses"] = [float(one) for one in losses]
        except Exception as error:
            row["failed"] = f"{type(error).__name__}: {str(error)[:160]}"
        if not tiny:
            row["peak"] = torch.cuda.max_memory_allocated()
            row["reserved"] = torch.cuda.max_memory_reserved()
            row["retries"] = torch.cuda.memory_stats()["num_alloc_retries"] - before
        if handle is not None:
            s = handle._spilling
            row["figures"] = s.figures()
            row["plan"] = (
                None
                if s.plan is None
                else {
                    "recompute": len(s.plan.recompute),
                    "of": len(s.measured.blocks) if s.measured else None,
                    "spill": s.plan.spill_bytes,
                    "states": s.plan.optimizer_to_host,
                    "fits": s.plan.fits,
                    "predicted": s.plan.step_seconds,
                }
            )
            if s.measured:
                m = s.measured
                row["measured"] = {
                    "blocks": sum(b.bytes for b in m.blocks),
                    "again": sum(b.seconds for b in m.blocks),
                    "other": m.other_bytes,
                    "fixed": m.fixed_bytes,
                    "states": m.optimizer_bytes,
                    "temporary": m.temporary_bytes,
                    "step": m.step_seconds,
                    "out": m.out_bytes_per_second,
                    "back": m.back_bytes_per_second,
                }
                if os.environ.get("SPILL_BLOCKS"):
                    row["blocks"] = [(b.name, b.bytes, b.seconds) for b in m.blocks]
            row["loss_parts"] = s.loss.calls
            handle.close()
        step = None
        rows.append(row)
        print(json.dumps(row), flush=True)
        return row

    if tiny:
        from plimsoll.spilling import card, host_pool, saved
        from plimsoll.spilling.program import Spilling
        from plimsoll.spilling.spill import Handle

        saved.LEAST_BYTES, saved.LEAST_ASKED_AFTER, host_pool.SLAB_BYTES = 1024, 1024, 2**20

        def spilling(cap):
            return Handle(Spilling(card.HostAsCard(), cap, 2**31))

        measure("unlimited", steps=4)

        peak = None
        from plimsoll.spilling.card import HostAsCard

        kept = []
        real = HostAsCard.__init__

        def init(self):
            real(self)
            kept.append(self)

        HostAsCard.__init__ = init
        measure("idle", cap=2**40, spilling=spilling, steps=2)
        peak = kept[-1].highest
        for mode, share in SHARES.items():
            measure(mode, cap=int(peak * share), spilling=spilling, steps=5)
        return
    import plimsoll

    torch._C._accelerator_setAllocatorSettings("expandable_segments:True")

    def spilling(cap):
        os.environ.pop("PLIMSOLL_MEMORY_BYTES", None)
        return plimsoll.spill(memory=cap)

    def again_without(done):
        """A program that failed may hold what it held: the rest is measured in a process of its own."""
        rest = ORDER[ORDER.index(done) + 1 :]
        if rest:
            lock.close()
            own = [sys.executable, os.path.abspath(__file__), "--program", name]
            os.execv(sys.executable, [*own, "--modes", *rest, "--peak", str(peak)])

    by_hand = {
        "save_on_cpu": lambda: torch.autograd.graph.save_on_cpu(pin_memory=True),
        "offloaded": offloaded(torch),
    }
    for mode in modes or ORDER:
        if mode in ANCHORS and name not in os.environ.get("SPILL_ANCHORS", name).split(","):
            continue
        if mode.startswith("unlimited"):
            row = measure(mode)
            peak = peak or row.get("peak", 0)
        elif mode == "idle":
            total = torch.cuda.get_device_properties(0).total_memory
            row = measure(mode, cap=int(total * 0.97), spilling=spilling)
        elif mode in ANCHORS:
            with (
                all_checkpointed(torch, model)
                if mode == "checkpointed"
                else contextlib.nullcontext()
            ):
                row = measure(mode, cap=peak // 2, around=by_hand.get(mode), steps=8)
        else:
            row = measure(mode, cap=int(peak * SHARES[mode]), spilling=spilling)
        if "failed" in row:
            if mode == "unlimited":
                return
            again_without(mode)
    print(json.dumps({"program": name, "mode": "held", "seconds": time.time() - began}), flush=True)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("names", nargs="*")
    parser.add_argument("--program")
    parser.add_argument("--tiny", action="store_true")
    parser.add_argument("--modes", nargs="*")
    parser.add_argument("--peak", type=int, default=0)
    parser.add_argument("--at-once", type=int, default=6)
    parser.add_argument("--output")
    parser.add_argument("--seconds", type=float, default=540)
    given = parser.parse_args()
    if given.program:
        run_one(given.program, given.tiny, given.modes, given.peak)
        return
    names = given.names or list(programs())
    ends = time.time() + given.seconds
    waiting, running, rows = list(names), [], []
    out = open(given.output, "a") if given.output else None
    while waiting or running:
        while waiting and len(running) < given.at_once and time.time() < ends:
            name = waiting.pop(0)
            log = open(f"/tmp/spill-{name}.log", "w+")
            command = [sys.executable, os.path.abspath(__file__), "--program", name] + (
                ["--tiny"] if given.tiny else []
            )
            running.append(
                (name, log, subprocess.Popen(command, stdout=log, stderr=subprocess.STDOUT))
            )
        for one in list(running):
            name, log, process = one
            if process.poll() is None and time.time() < ends:
                continue
            if process.poll() is None:
                process.kill()
                process.wait()
            running.remove(one)
            log.seek(0)
            text = log.read()
            found = [
                json.loads(line) for line in text.splitlines() if line.startswith('{"program"')
            ]
            rows += found
            if out:
                out.writelines(json.dumps(row) + "\n" for row in found)
                out.flush()
            show(name, found)
            if process.returncode:
                print(f"  {name}: ended with {process.returncode}: {text[-500:]}", flush=True)
        if time.time() >= ends:
            waiting.clear()
        time.sleep(0.2)
    for mode in ("idle", "0.75", "0.50", "0.33"):
        factors = []
        for row in rows:
            if row["mode"] == mode and "seconds" in row:
                base = min(
                    r["seconds"]
                    for r in rows
                    if r["program"] == row["program"] and r["mode"].startswith("unlimited")
                )
                factors.append(row["seconds"] / base)
        tried = sum(row["mode"] == mode for row in rows)
        if factors:
            print(
                f"{mode}: median {statistics.median(factors):.3f}, worst {max(factors):.2f}, {len(factors)} of {tried} finished",
                flush=True,
            )


def show(name, rows):
    plain = [r for r in rows if r["mode"].startswith("unlimited") and "seconds" in r]
    if not plain:
        print(f"{name}: {rows}")
        return
    base = min(r["seconds"] for r in plain)
    print(f"{name}: {plain[0].get('peak', 0) / 2**30:.1f} GiB, {base:.4f} s", flush=True)
    for row in rows:
        if row["mode"] == "held":
            print(f"  held {row['seconds']:.0f} s", flush=True)
            continue
        same = (
            row.get("losses", [])[:] == plain[0]["losses"][: len(row.get("losses", []))]
            if "losses" in row
            else None
        )
        apart = max(
            (abs(a - b) for a, b in zip(row.get("losses", []), plain[0]["losses"])),
            default=math.nan,
        )
        what = f"{row['seconds'] / base:.3f}" if "seconds" in row else row["failed"]
        print(
            f"  {row['mode']}: {what} {'same' if same else f'{apart:.2g}'} peak {row.get('reserved', 0) / 2**30:.2f} of {(row['cap'] or 0) / 2**30:.2f} retries {row.get('retries')} {row.get('plan') or ''} {row.get('loss_parts', '')} {(row.get('figures') or {}).get('aside') or ''}",
            flush=True,
        )


if __name__ == "__main__":
    main()
