"""Where a recovering step settles under a cap, beside the largest microbatch that a loop written by hand can use.

Usage: python3 bench/gpu/recovery/settle.py [--output FILE] [vit gpt2]. Takes about three minutes on an H200. Each
run is a fresh process, forked before anything touched the card. BENCH_TINY=1 walks through it on the CPU.
"""

from __future__ import annotations

import json
import os
import sys
import time
import traceback
from typing import Any, Callable

import torch
import transformers

from common import DEVICE, GIB, TINY, cap, peak_bytes, seconds

import plimsoll

STEPS = 8
MODELS: dict[str, dict[str, Any]] = {
    "vit": {"name": "ViT-large, fp32, 96 samples", "cap": 12 * GIB, "batch": 96},
    "gpt2": {"name": "GPT-2 124M, fp32, 32 x 512 tokens", "cap": 8 * GIB, "batch": 32},
}
if TINY:
    for one in MODELS.values():
        one["batch"] = 12


def vit():
    sizes = {
        "hidden_size": 1024,
        "num_hidden_layers": 24,
        "num_attention_heads": 16,
        "intermediate_size": 4096,
    }
    small = {
        "hidden_size": 32,
        "num_hidden_layers": 2,
        "num_attention_heads": 2,
        "intermediate_size": 64,
    }
    config = transformers.ViTConfig(**(small if TINY else sizes), num_labels=10)
    config.hidden_dropout_prob = config.attention_probs_dropout_prob = 0.0
    model = transformers.ViTForImageClassification(config)
    batch = MODELS["vit"]["batch"]
    data = {
        "pixel_values": torch.randn(batch, 3, 224, 224),
        "labels": torch.randint(0, 10, (batch,)),
    }
    return model, data


def gpt2():
    small = (
        {"n_embd": 16, "n_layer": 2, "n_head": 2, "vocab_size": 64, "n_positions": 64}
        if TINY
        else {}
    )
    config = transformers.GPT2Config(
        resid_pdrop=0.0, embd_pdrop=0.0, attn_pdrop=0.0, use_cache=False, **small
    )
    config.bos_token_id = config.eos_token_id = 0
    model = transformers.GPT2LMHeadModel(config)
    shape = (MODELS["gpt2"]["batch"], 16 if TINY else 512)
    ids = torch.randint(0, config.vocab_size, shape)
    return model, {"input_ids": ids, "labels": ids}


def build(which: str):
    torch.manual_seed(0)
    with torch.device(DEVICE):
        model, data = {"vit": vit, "gpt2": gpt2}[which]()
    return model, torch.optim.AdamW(model.parameters(), lr=1e-4), data


def recovering(which: str, most: int) -> dict[str, Any]:
    """Eight steps; `most` stands in for the cap where there is no card."""
    cap(MODELS[which]["cap"])
    model, optimizer, data = build(which)
    tries: list[dict[str, int]] = []

    def loss(batch):
        count = len(batch["labels"])
        held = torch.cuda.memory_allocated() if DEVICE == "cuda" else 0
        tries.append({"step": step.steps, "samples": count, "allocatedBytes": held})
        if most and count > most:
            raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 96.00 MiB.")
        return model(**batch).loss

    step = plimsoll.recovering(model, optimizer, loss)
    times, sizes, parts = [], [], []
    for _ in range(STEPS):
        begin = seconds()
        step(data).item()
        times.append(seconds() - begin)
        sizes.append(step.microbatch)
        parts.append(max(step.partition))
    events = [
        {key: one.get(key) for key in ("step", "phase", "rung", "from", "to", "why")}
        for one in step.events
    ]
    return {
        "times": times,
        "sizes": sizes,
        "parts": parts,
        "tries": tries,
        "events": events,
        **step.report(),
    }


def own_loop(which: str, most: int) -> dict[str, Any]:
    """Two steps in a loop of one's own that keeps its loss and outputs in variables, as loops do."""
    cap(MODELS[which]["cap"])
    model, optimizer, data = build(which)
    tries: list[dict[str, int]] = []
    step = plimsoll.recovering(model, optimizer)
    for _ in range(2):
        for part in step.microbatches(data):
            with part:
                held = torch.cuda.memory_allocated() if DEVICE == "cuda" else 0
                tries.append({"step": step.steps, "samples": len(part), "allocatedBytes": held})
                if most and len(part) > most:
                    raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 96.00 MiB.")
                outputs = model(**part.batch)
                loss = outputs.loss
                part.backward(loss)
    return {"tries": tries, "microbatch": step.microbatch}


def by_hand(which: str, size: int, steps: int, limited: bool = True) -> dict[str, Any]:
    """Plain accumulation; the whole batch's gradients, one step of the optimizer."""
    if limited:
        cap(MODELS[which]["cap"])
    model, optimizer, data = build(which)
    count = MODELS[which]["batch"]
    times = []
    for _ in range(steps):
        begin = seconds()
        total = 0.0
        for start in range(0, count, size):
            part = {key: value[start : start + size] for key, value in data.items()}
            loss = model(**part).loss * (len(part["labels"]) / count)
            loss.backward()
            total = total + loss.detach()
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        total.item()
        times.append(seconds() - begin)
    return {"times": times, "peakBytes": peak_bytes()}


def fresh(work: Callable[[], dict[str, Any]]) -> dict[str, Any]:
    """A result from a process of its own; what went wrong with it otherwise."""
    read, write = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.close(read)
        try:
            outcome = work()
        except torch.OutOfMemoryError:
            outcome = {"outOfMemory": True}
        except BaseException:
            outcome = {"error": traceback.format_exc()[-2000:]}
        with os.fdopen(write, "w") as out:
            out.write(json.dumps(outcome))
        os._exit(0)
    os.close(write)
    with os.fdopen(read) as answer:
        text = answer.read()
    os.waitpid(pid, 0)
    return json.loads(text) if text else {"error": "died"}


def largest_that_fits(which: str, tiny_max: int) -> int:
    low, high = 1, MODELS[which]["batch"]
    while low < high:
        middle = (low + high + 1) // 2
        outcome = (
            {"outOfMemory": middle > tiny_max}
            if TINY
            else fresh(lambda size=middle: by_hand(which, size, 2))
        )
        if "error" in outcome:
            raise RuntimeError(outcome["error"])
        fits = not outcome.get("outOfMemory")
        print(f"  by hand, {middle}: {'fits' if fits else 'out of memory'}", flush=True)
        low, high = (middle, high) if fits else (low, middle - 1)
    return low


def measure(which: str) -> dict[str, Any]:
    what = MODELS[which]
    most = 5 if TINY else 0
    print(f"{what['name']}, cap {what['cap'] / GIB:.0f} GiB", flush=True)
    ours = fresh(lambda: recovering(which, most))
    if "tries" not in ours:
        return {"recovering": ours}
    for event in ours["events"]:
        print(
            f"  step {event['step']} {event['phase'] or ''}: {event['from']} to {event['to']}, "
            f"{event['rung']}: {event['why']}"
        )
    first = [one for one in ours["tries"] if one["step"] == 0]
    # The tries of the first step up to the first size that did not fail.
    print("  first step, samples and GiB allocated when a try starts:", end=" ")
    print(", ".join(f"{one['samples']}: {one['allocatedBytes'] / GIB:.3f}" for one in first[:8]))
    loop = fresh(lambda: own_loop(which, most))
    print("  the same in a loop of one's own:", end=" ")
    print(
        ", ".join(
            f"{one['samples']}: {one['allocatedBytes'] / GIB:.3f}"
            for one in loop.get("tries", [])[:8]
        )
        or loop
    )
    largest = largest_that_fits(which, most)
    settled = ours["sizes"][-1]
    hand = fresh(lambda: by_hand(which, largest, STEPS))
    same = fresh(lambda: by_hand(which, ours["parts"][-1], STEPS))
    unlimited = fresh(lambda: by_hand(which, what["batch"], STEPS, limited=False))
    total = sum(ours["times"])
    rows = [
        ("microbatches of the steps", ", ".join(map(str, ours["sizes"]))),
        ("largest part of each step", ", ".join(map(str, ours["parts"]))),
        (
            "settled, of the largest that fits",
            f"{settled} of {largest}: {100 * settled / largest:.0f} %",
        ),
        ("measured line", json.dumps(ours["peakLine"])),
        ("time of 8 steps", f"{total:.2f} s"),
    ]
    for name, outcome in (
        ("the largest", hand),
        ("the same parts", same),
        ("no limit, whole batch", unlimited),
    ):
        if "times" in outcome:
            spent = sum(outcome["times"])
            rows.append((f"by hand, {name}", f"{spent:.2f} s; ours takes {total / spent:.3f} x"))
        else:
            rows.append((f"by hand, {name}", str(outcome)[-300:]))
    for name, value in rows:
        print(f"  {name:36}{value}", flush=True)
    return {
        "recovering": ours,
        "ownLoop": loop,
        "largest": largest,
        "byHand": hand,
        "sameParts": same,
        "unlimited": unlimited,
    }


def main() -> None:
    arguments = sys.argv[1:]
    output = arguments[arguments.index("--output") + 1] if "--output" in arguments else None
    begin = time.perf_counter()
    found = {}
    for which in [name for name in MODELS if name in arguments] or list(MODELS):
        found[which] = measure(which)
        if output:
            with open(output, "w", encoding="utf-8") as file:
                json.dump(
                    {"torch": torch.__version__, "transformers": transformers.__version__, **found},
                    file,
                )
    print(f"{time.perf_counter() - begin:.0f} s in all")


if __name__ == "__main__":
    main()
