"""Recovery on a real GPU, one table. Usage: python3 bench/gpu/recovery/recovery.py [--output FILE] [--only PART,..].

Each part runs in a process of its own with a time limit; a part that fails is told and the rest goes on.
Needs torch, transformers and accelerate; no Node. Takes about six minutes on an H200. BENCH_TINY=1 walks
through it on the CPU in a minute, to see that it works.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))
PYTHON = os.path.normpath(os.path.join(HERE, "..", "..", "..", "python"))
TINY = os.environ.get("BENCH_TINY") == "1"


def part(script, *arguments, limit=180, env=None):
    """The last JSON line of a part, or what went wrong with it."""
    begin = time.perf_counter()
    try:
        done = subprocess.run(
            [sys.executable, os.path.join(HERE, script), *map(str, arguments)],
            capture_output=True,
            text=True,
            timeout=limit,
            env={**os.environ, **(env or {})},
            check=False,
        )
    except subprocess.TimeoutExpired as late:
        return {"error": f"more than {limit} s", "tail": str(late.stderr or "")[-800:]}
    lines = [line for line in done.stdout.splitlines() if line.startswith("{")]
    if done.returncode != 0 or not lines:
        return {"error": f"exit status {done.returncode}", "tail": done.stderr[-1500:]}
    return {**json.loads(lines[-1]), "wallSeconds": time.perf_counter() - begin}


def gib(size):
    return f"{size / 2**30:.1f} GiB"


def curves(free, capped):
    return max(abs(a - b) for a, b in zip(free["losses"], capped["losses"]))


def measure_overhead():
    plain = part("part_overhead.py", limit=150)
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "bridge")
        listener = subprocess.Popen(
            [sys.executable, os.path.join(HERE, "listener.py"), path], stdout=subprocess.PIPE
        )
        listener.stdout.readline()
        auto = os.pathsep.join([os.path.join(PYTHON, "plimsoll", "_auto"), PYTHON])
        watched = part(
            "part_overhead.py", limit=150, env={"PYTHONPATH": auto, "PLIMSOLL_BRIDGE": path}
        )
        recorded = part(
            "part_overhead.py",
            limit=150,
            env={"PYTHONPATH": auto, "PLIMSOLL_BRIDGE": path, "PLIMSOLL_SNAPSHOT": "1"},
        )
        listener.kill()
        listener.wait()
    return {"plain": plain, "watched": watched, "recorded": recorded}


def rows(found):
    said = []

    def row(what, value):
        said.append((what, value))

    for name, result in found.items():
        if isinstance(result, dict) and "error" in result:
            row(name, f"FAILED: {result['error']}")
    fine = {
        name: result
        for name, result in found.items()
        if not (isinstance(result, dict) and "error" in result)
    }
    if "free" in fine:
        peak = fine["free"]["peakBytes"]
        row("unlimited: peak", f"{gib(peak)}, {peak / (8 * 2**30):.1f} x the cap of 8 GiB")
    if "free" in fine and "capped" in fine:
        row("capped: peak", gib(fine["capped"]["peakBytes"]))
        row(
            "capped: greatest difference of any loss", f"{curves(fine['free'], fine['capped']):.2e}"
        )
        row("capped: out-of-memory recovered inside the step", fine["capped"]["recoveries"])
        wanted, ran = len(fine["free"]["losses"]), len(fine["capped"]["losses"])
        row("capped: steps repeated, all in one process", ran - wanted)
        row("capped: microbatches", ", ".join(map(str, dict.fromkeys(fine["capped"]["sizes"]))))
        times = [sum(fine[way]["times"]) for way in ("free", "capped")]
        row("time of all steps: unlimited, capped", f"{times[0]:.1f} s, {times[1]:.1f} s")
    if "accelerate" in fine:
        outcome = fine["accelerate"]
        row(
            "accelerate: restarts, steps repeated",
            f"{outcome['restarts']}, {outcome['stepsRepeated']}",
        )
        row(
            "accelerate: time lost before the run that ends",
            f"{outcome['lostSeconds']:.1f} s of {outcome['seconds']:.1f} s",
        )
        row("accelerate: batch sizes tried", " ".join(map(str, outcome["batchSizes"])))
    if "grows" in fine:
        row(
            "grows back: microbatches, cap 8 then 20 GiB",
            ", ".join(map(str, _runs(fine["grows"]["sizes"]))),
        )
    for way in ("driver", "cublas"):
        if way in fine:
            outcome = fine[way]
            how = f"recovered: {outcome['recovered']}, as {outcome['kinds']}, {outcome['recoveries']} times"
            row(f"card filled by another ({way})", how)
    if "overhead" in fine:
        base = fine["overhead"]
        for name in ("plain", "watched", "recorded"):
            outcome = base[name]
            if "error" in outcome:
                row(f"overhead, {name}", f"FAILED: {outcome['error']}")
                continue
            reference = base["plain"].get("plainSeconds", outcome["plainSeconds"])
            more = 100 * (outcome["recoveringSeconds"] / outcome["plainSeconds"] - 1)
            row(
                f"overhead, {name}: recovering step, beside a plain loop in the same process",
                f"{more:+.2f} % of {1000 * outcome['plainSeconds']:.1f} ms",
            )
            row(
                f"overhead, {name}: the plain loop itself",
                f"{100 * (outcome['plainSeconds'] / reference - 1):+.2f} %",
            )
    return said


def _runs(sizes):
    """A list without repeats of neighbours."""
    return [size for i, size in enumerate(sizes) if i == 0 or sizes[i - 1] != size]


def main():
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--output")
    options.add_argument("--only", default="train,accelerate,grows,driver,cublas,overhead")
    given = options.parse_args()
    wanted = given.only.split(",")
    found = {"probe": part("part_probe.py", limit=120)}
    batch = found["probe"].get("batch", 8 if TINY else 56)
    plans = {
        "train": lambda: {
            "free": part("part_train.py", "free", batch, limit=180),
            "capped": part("part_train.py", "capped", batch, limit=240),
        },
        "accelerate": lambda: {"accelerate": part("part_accelerate.py", batch, limit=400)},
        "grows": lambda: {"grows": part("part_train.py", "grows", batch, limit=400)},
        "driver": lambda: {"driver": part("part_neighbour.py", "driver", limit=150)},
        "cublas": lambda: {"cublas": part("part_neighbour.py", "cublas", limit=150)},
        "overhead": lambda: {"overhead": measure_overhead()},
    }
    for name in wanted:
        print(f"{name} ...", file=sys.stderr, flush=True)
        found.update(plans[name]())
        if given.output:
            with open(given.output, "w", encoding="utf-8") as file:
                json.dump(found, file)
    said = rows(found)
    width = max(len(what) for what, _ in said)
    print(f"GPT-2 124M, batch {batch}, cap 8 GiB; all measured")
    for what, value in said:
        print(f"{what:{width}}  {value}")
    for name, result in found.items():
        if isinstance(result, dict) and "error" in result:
            print(f"--- {name}\n{result.get('tail', '')}", file=sys.stderr)


if __name__ == "__main__":
    main()
