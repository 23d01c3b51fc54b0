"""Whether the batch that `session.optimize_training` names fits a real card under a cap, and how near it comes.

    python3 bench/gpu/sessions/optimize_training.py [--output FILE]

For each model: the batch that it names under the cap, training with that batch under the same cap, and beside
it the largest batch that a loop written by hand can use with the model as it is and as it was changed. About
two minutes on an H200. BENCH_TINY=1 walks through it on whatever there is.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import sys
import time
from typing import Any

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "claims"))

import torch
from models import DEVICE, NAMES, TINY, WORDS, build, cap, data, give_back, peak, wait

import plimsoll

CAP_BYTES = 12 * 2**30
EFFECTIVE = 8 if TINY else 512
STEPS = 2 if TINY else 6
ANSWERED = (
    "settings",
    "fitsSamples",
    "roomBytes",
    "sampleBytes",
    "fixedBytes",
    "measuredWith",
)
# No batch beyond it is tried by hand.
MOST = 16 if TINY else 1024


def named(name: str) -> dict[str, Any]:
    """What the session answers, and what training with it took under the cap."""
    give_back()
    cap(CAP_BYTES)
    model = build(name).train()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
    weights = [p.detach().cpu().clone() for p in model.parameters()]
    whole = data(name, model, EFFECTIVE)
    wait()
    random, begin = torch.get_rng_state(), time.perf_counter()
    with plimsoll.session({"training": {"batch": EFFECTIVE}}) as session:
        answer = session.optimize_training(model, optimizer, lambda b: model(**b).loss, whole)
        wait()
        seconds = time.perf_counter() - begin
        untouched = {
            "weights": all(torch.equal(a, b.cpu()) for a, b in zip(weights, model.parameters())),
            "gradients": all(p.grad is None for p in model.parameters()),
            "random": torch.equal(random, torch.get_rng_state()),
        }
        give_back()
        size = answer["settings"]["batch"]
        step = session.training_step(model, optimizer, lambda b: model(**b).loss, microbatch=size)
        for _ in range(STEPS):
            step(whole)
        training = session.report()["training"]
    return {
        "answer": {key: answer[key] for key in ANSWERED},
        "changes": [change["what"] for change in answer["changes"]],
        "askedSeconds": seconds,
        "untouched": untouched,
        "training": training,
        "peakAllocatedBytes": peak(),
        "peakReservedBytes": torch.cuda.max_memory_reserved() if DEVICE == "cuda" else 0,
    }


def by_hand(name: str, optimized: bool) -> dict[str, Any]:
    """The largest batch whose step runs under the cap, by doubling and halving, and its speed."""
    fits, fails = 0, MOST + 1
    size = 2 if TINY else 16
    while fails - fits > max(1, fits // 16):
        if _runs(name, size, optimized):
            fits, size = size, min(2 * size, (size + fails) // 2)
        else:
            fails, size = size, (fits + size) // 2
        if size == fits:
            break
    return {"batch": fits, "samplesPerSecond": _speed(name, fits, optimized) if fits else "unknown"}


def _made(name: str, size: int, optimized: bool) -> tuple[Any, Any, Any]:
    give_back()
    model = build(name).train()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
    if optimized:
        plimsoll.optimize(model, optimizer)
    return model, optimizer, data(name, model, size)


def _step(model: Any, optimizer: Any, given: Any) -> None:
    model(**given).loss.backward()
    optimizer.step()
    optimizer.zero_grad(set_to_none=True)


def _runs(name: str, size: int, optimized: bool) -> bool:
    try:
        made = _made(name, size, optimized)
        for _ in range(2):
            _step(*made)
        wait()
        return True
    except torch.OutOfMemoryError:
        return False


def _speed(name: str, size: int, optimized: bool) -> float:
    made = _made(name, size, optimized)
    times = []
    for turn in range(STEPS + 2):
        begin = time.perf_counter()
        _step(*made)
        wait()
        if turn > 1:
            times.append(time.perf_counter() - begin)
    return size / statistics.median(times)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--output")
    given = parser.parse_args()
    found: dict[str, Any] = {"torch": torch.__version__, "capBytes": CAP_BYTES, "models": {}}
    found["device"] = torch.cuda.get_device_name() if DEVICE == "cuda" else "cpu"
    for name in NAMES:
        one = found["models"][WORDS[name]] = named(name)
        # The model and the states of its optimizer are gone by now.
        one["byHandChanged"] = by_hand(name, optimized=True)
        one["byHandPlain"] = by_hand(name, optimized=False)
        cap(None)
        settings, hand = one["answer"]["settings"], one["byHandChanged"]
        print(
            f"{WORDS[name]}: named {settings['batch']} x {settings['accumulation']}, "
            f"fits {one['answer']['fitsSamples']}, by hand {hand['batch']}, as it is "
            f"{one['byHandPlain']['batch']}; recoveries {one['training']['recoveries']}, "
            f"peak {one['peakAllocatedBytes'] / 2**30:.2f} GiB allocated, "
            f"{one['peakReservedBytes'] / 2**30:.2f} GiB reserved of {CAP_BYTES / 2**30:.0f}",
            flush=True,
        )
    if given.output:
        with open(given.output, "w", encoding="utf-8") as file:
            json.dump(found, file, indent=1)


if __name__ == "__main__":
    main()
