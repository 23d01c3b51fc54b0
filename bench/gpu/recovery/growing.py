"""Loops whose memory grows under a cap: GPT-2 that keeps more and more between steps, or whose sequences get longer,
and an encoder whose results are kept. Each with sizes that change before memory runs out, beside sizes that change
only after a failure, beside a plain loop.

Usage: python3 bench/gpu/recovery/growing.py [--output FILE] [kept longer encode]. About two minutes on an H200.
BENCH_TINY=1 walks through it on the CPU, without a cap.
"""

from __future__ import annotations

import json
import os
import sys
from typing import Any

import torch
from settle import fresh

from common import DEVICE, GIB, TINY, cap, gpt2, seconds

import plimsoll
from plimsoll import batching
from plimsoll.recovery.rules import decider

CAPS = {"kept": 9 * GIB, "longer": 9 * GIB, "encode": 12 * GIB}
STEPS, BATCH = (8, 4) if TINY else (60, 8)
LENGTH = 8 if TINY else 384
KEPT_BYTES = 1024 if TINY else 64 * 2**20
WAYS = ("before", "after a failure", "plain loop")


def sequence(step: int, case: str) -> int:
    """Longer by eight tokens with each step."""
    if case != "longer":
        return LENGTH
    return 4 + step // 4 if TINY else 256 + 8 * step


def highest() -> tuple[int, int]:
    if DEVICE != "cuda":
        return 0, 0
    from plimsoll.memory.highest import raised

    return raised("cuda:0", torch.cuda.max_memory_allocated(), torch.cuda.max_memory_reserved())


def switch_off() -> None:
    """Sizes follow failures alone, as in earlier versions."""
    decider.keep_below = lambda ahead: None
    batching.next_size = lambda size, largest, *_: size


def training(case: str, way: str) -> dict[str, Any]:
    cap(CAPS[case])
    model = gpt2()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
    step = None
    if way != "plain loop":
        if way != "before":
            switch_off()
        step = plimsoll.recovering(model, optimizer, lambda batch: model(**batch).loss)
    kept, sizes, begin, loss = [], [], seconds(), torch.zeros(())
    for number in range(STEPS):
        made = torch.Generator().manual_seed(number)
        shape = (BATCH, sequence(number, case))
        ids = torch.randint(0, model.config.vocab_size, shape, generator=made).to(DEVICE)
        batch = {"input_ids": ids, "labels": ids}
        if case == "kept":
            kept.append(torch.empty(KEPT_BYTES, dtype=torch.uint8, device=DEVICE))
        try:
            if step is None:
                loss = model(**batch).loss
                loss.backward()
                optimizer.step()
                optimizer.zero_grad(set_to_none=True)
            else:
                loss = step(batch)
        except torch.OutOfMemoryError:
            return {"endedAtStep": number, **figures(case, begin), "sizes": sizes}
        sizes.append(BATCH if step is None else max(step.partition))
    events = [] if step is None else list(step.events)
    told = {
        "outOfMemory": sum(1 for one in events if "kind" in one),
        "resized": sum(1 for one in events if one["rung"] == "smaller-microbatch"),
        "loss": float(loss.detach()),
    }
    return {**told, **figures(case, begin), "sizes": sizes}


def encoding(case: str, way: str) -> dict[str, Any]:
    """Hidden states of each batch stay on the card, as in a program that embeds a corpus."""
    cap(CAPS[case])
    model = gpt2().eval()
    if way == "after a failure":
        switch_off()
    kept, sizes, begin = [], [], seconds()
    samples = range(4 * STEPS * BATCH * 4)
    batches = (
        [samples[at : at + 4 * BATCH] for at in range(0, len(samples), 4 * BATCH)]
        if way == "plain loop"
        else plimsoll.batches(samples, 4 * BATCH)
    )
    for batch in batches:
        ids = torch.zeros(len(batch), LENGTH, dtype=torch.long, device=DEVICE)
        try:
            with torch.inference_mode():
                output = model(input_ids=ids, output_hidden_states=True)
                kept.append(output.hidden_states[-1].clone())
                del output
        except torch.OutOfMemoryError:
            return {"endedAtStep": len(sizes), **figures(case, begin), "sizes": sizes}
        sizes.append(len(batch))
    return {"outOfMemory": 0, **figures(case, begin), "sizes": sizes}


def figures(case: str, begin: float) -> dict[str, Any]:
    allocated, reserved = highest()
    return {
        "seconds": seconds() - begin,
        "allocatedShare": allocated / CAPS[case],
        "reservedShare": reserved / CAPS[case],
    }


CASES = {
    "kept": (training, "GPT-2, 64 MiB more kept with each step"),
    "longer": (training, "GPT-2, sequences longer by 8 tokens with each step"),
    "encode": (encoding, "hidden states of GPT-2 kept on the card"),
}


def main() -> None:
    output = sys.argv[sys.argv.index("--output") + 1] if "--output" in sys.argv else None
    chosen = [case for case in CASES if case in sys.argv] or list(CASES)
    results = []
    for case in chosen:
        work, what = CASES[case]
        print(f"{what}, cap {CAPS[case] / GIB:.0f} GiB", flush=True)
        for way in WAYS:
            told = fresh(lambda case=case, work=work, way=way: work(case, way))
            results.append({"case": case, "what": what, "way": way, **told})
            shown = {key: value for key, value in told.items() if key != "sizes"}
            print(f"  {way}: {json.dumps(shown)}", flush=True)
            sizes = told.get("sizes", [])
            print(f"    sizes {sizes[0] if sizes else None} ... {sizes[-12:]}", flush=True)
    if output:
        versions = {"torch": torch.__version__, "device": DEVICE}
        with open(output, "w", encoding="utf-8") as file:
            json.dump({"capBytes": CAPS, **versions, "results": results}, file, indent=1)
    ours = [one for one in results if one["way"] == "before" and DEVICE == "cuda"]
    kept = all(not one.get("outOfMemory", 1) and one["allocatedShare"] < 0.9 for one in ours)
    sys.exit(0 if kept else 1)


if __name__ == "__main__":
    os.environ.setdefault("PYTORCH_NVML_BASED_CUDA_CHECK", "1")
    main()
