"""What the claims about training memory, throughput, latency and out-of-memory errors come to on a real GPU.

    python3 bench/gpu/claims/measure.py [--output FILE]

Training and inference of three models as they are (fp32 with TF32) beside what `plimsoll.optimize` makes of them, turn
by turn in one process; then runs and loads under caps that they pass, plain and with Plimsoll. About two minutes on an
H200. BENCH_TINY=1 walks through it on whatever there is.
"""

from __future__ import annotations

import argparse
import copy
import json
import os
import statistics
import time
from typing import Any, Callable

import torch
from models import (
    BATCHES,
    DEVICE,
    HERE,
    NAMES,
    TINY,
    WORDS,
    build,
    cap,
    data,
    give_back,
    held,
    peak,
    wait,
)

import plimsoll

TURNS = 2 if TINY else 5
STEPS = 2 if TINY else 6
# Shares of what the plain program needs that it may have.
CAPS = (1.1, 0.7, 0.5, 0.35)
LLAMA = os.path.join(HERE, "..", "..", "truth", "configs", "llama-3.2-1b.json")


def training(name: str) -> dict[str, Any]:
    batch = 2 if TINY else BATCHES[name][0]
    ways: dict[str, tuple[int, Callable[[Any, Any], Any]]] = {
        "plain": (batch, lambda model, optimizer: None),
        "optimize": (batch, plimsoll.optimize),
        "optimize, checkpoint=False": (
            batch,
            lambda model, optimizer: plimsoll.optimize(model, optimizer, checkpoint=False),
        ),
        "optimize, twice the batch": (2 * batch, plimsoll.optimize),
    }
    ready = {}
    for way, (size, change) in ways.items():
        give_back()
        before = held()
        model = build(name).train()
        optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
        change(model, optimizer)
        given = data(name, model, size)
        for _ in range(3):
            train_step(model, optimizer, given)
        wait()
        ready[way] = {"run": (model, optimizer, given), "batch": size, "times": []}
        ready[way]["peakBytes"] = peak() - before
    for _ in range(TURNS):
        for one in ready.values():
            for _ in range(STEPS):
                wait()
                begin = time.perf_counter()
                train_step(*one["run"])
                wait()
                one["times"].append(time.perf_counter() - begin)
    found = {}
    for way, one in ready.items():
        seconds = statistics.median(one["times"])
        found[way] = {
            "batch": one["batch"],
            "peakBytes": one["peakBytes"] or "unknown",
            "stepSeconds": seconds,
            "samplesPerSecond": one["batch"] / seconds,
        }
    ready.clear()
    give_back()
    return found


def train_step(model: Any, optimizer: Any, given: dict[str, Any]) -> None:
    model(**given).loss.backward()
    optimizer.step()
    optimizer.zero_grad(set_to_none=True)


def inference(name: str) -> dict[str, Any]:
    plain = build(name).eval()
    models = {"plain": plain}
    for way, options in {"optimize": {}, "optimize, prune=0.3": {"prune": 0.3}}.items():
        models[way] = copy.deepcopy(plain)
        given = {"dtype": torch.bfloat16, **options}
        plimsoll.optimize(models[way], training=False, **given)
    found: dict[str, Any] = {}
    for batch in dict.fromkeys(BATCHES[name][1:] if not TINY else (2, 1)):
        inputs = {way: _cast(data(name, plain, batch, labels=False), way) for way in models}
        times: dict[str, list[float]] = {way: [] for way in models}
        with torch.inference_mode():
            for turn in range(TURNS + 1):
                for way, model in models.items():
                    for _ in range(STEPS):
                        wait()
                        begin = time.perf_counter()
                        model(**inputs[way])
                        wait()
                        if turn:
                            times[way].append(time.perf_counter() - begin)
        found[str(batch)] = {way: {"seconds": statistics.median(t)} for way, t in times.items()}
    models.clear()
    give_back()
    return found


def _cast(given: dict[str, Any], way: str) -> dict[str, Any]:
    """Pictures come in the type of the weights; tokens are whole numbers."""
    if way == "plain":
        return given
    return {
        key: value.to(torch.bfloat16) if value.is_floating_point() else value
        for key, value in given.items()
    }


def out_of_memory(name: str, needs: int | str) -> list[dict[str, Any]]:
    """The same training under caps, by a plain loop and by a recovering step."""
    found = []
    for share in CAPS:
        allowed = None if needs == "unknown" else int(share * int(needs))
        row: dict[str, Any] = {"what": f"training {WORDS[name]}", "share": share}
        for way in ("plain", "plimsoll"):
            give_back()
            cap(allowed if allowed is None else held() + allowed)
            row[way] = _survives(lambda way=way: _train_capped(name, way))
            give_back()
            cap(None)
        found.append(row)
    return found


def _train_capped(name: str, way: str) -> None:
    model = build(name).train()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
    given = data(name, model, 2 if TINY else BATCHES[name][0])
    step = plimsoll.recovering(model, optimizer, lambda part: model(**part).loss)
    for _ in range(4):
        if way == "plain":
            train_step(model, optimizer, given)
        else:
            step(given)


def loads(config: str) -> list[dict[str, Any]]:
    """A model of 1.2 billion parameters into caps below and above its size in 16 bits."""
    from transformers import AutoConfig, AutoModelForCausalLM

    with open(config, encoding="utf-8") as file:
        facts = json.load(file)
    if TINY:
        facts.update(hidden_size=64, num_hidden_layers=2, intermediate_size=128, vocab_size=256)
    made = AutoModelForCausalLM.from_config(
        AutoConfig.for_model(**facts), dtype=torch.bfloat16
    ).eval()
    size = sum(p.numel() * p.element_size() for p in made.parameters())
    found = []
    for share in (1.1, 0.8, 0.7, 0.5):
        row: dict[str, Any] = {"what": "loading Llama 3.2 1B", "share": share}
        for way in ("plain", "plimsoll"):
            give_back()
            cap(held() + int(share * size))
            row[way] = _survives(lambda way=way, row=row: row.update(_loaded(made, way)))
            give_back()
            cap(None)
        found.append(row)
    return found


def _loaded(made: Any, way: str) -> dict[str, str]:
    if way == "plain":
        copy.deepcopy(made).to(DEVICE)
        return {}
    model = plimsoll.load(lambda: copy.deepcopy(made), preset="fp16", device=DEVICE, cache=False)
    return {"preset": model.plimsoll_preset}


def _survives(act: Callable[[], Any]) -> bool:
    try:
        act()
    except torch.OutOfMemoryError:
        return False
    return True


def main() -> None:
    options = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    options.add_argument("--output")
    options.add_argument("--config", default=LLAMA)
    given = options.parse_args()
    # As people train today; the same for both.
    torch.set_float32_matmul_precision("high")
    found: dict[str, Any] = {
        "device": torch.cuda.get_device_name(0) if DEVICE == "cuda" else "cpu",
        "torch": torch.__version__,
        "date": time.strftime("%Y-%m-%d", time.gmtime()),
        "training": {},
        "inference": {},
        "outOfMemory": [],
    }

    def keep() -> None:
        if given.output:
            with open(given.output, "w", encoding="utf-8") as file:
                json.dump(found, file, indent=1)

    for name in NAMES:
        found["training"][name] = training(name)
        print(name, json.dumps(found["training"][name]), flush=True)
        keep()
    for name in NAMES:
        found["inference"][name] = inference(name)
        print(name, json.dumps(found["inference"][name]), flush=True)
        keep()
    for name in NAMES:
        needs = found["training"][name]["plain"]["peakBytes"]
        found["outOfMemory"] += out_of_memory(name, needs)
        keep()
    found["outOfMemory"] += loads(given.config)
    for row in found["outOfMemory"]:
        print(json.dumps(row), flush=True)
    keep()


if __name__ == "__main__":
    main()
