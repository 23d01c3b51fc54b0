"""What inference gains from plimsoll.optimize and plimsoll.load: bytes held, speed, how far results move.

    python3 bench/gpu/inference_models.py [--output FILE] [--config bench/truth/configs/llama-3.2-1b.json]

One model with random weights, built anew for each row, beside the same model in bfloat16. About a minute on
an H200. BENCH_TINY=1 walks through it in miniature on whatever there is. The last row caps the allocator below
what the model takes in 16 bits and asks for it all the same: the fall back to a smaller preset is real.
"""

import argparse
import copy
import gc
import json
import os
import sys
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "..", "python"))

import torch
from transformers import AutoConfig, AutoModelForCausalLM

import plimsoll

TINY = os.environ.get("BENCH_TINY") == "1"
DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
SMALL = {
    "hidden_size": 128,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "num_key_value_heads": 2,
    "head_dim": 64,
    "intermediate_size": 256,
    "vocab_size": 512,
}
SHAPE = (2, 16) if TINY else (8, 512)
ROUNDS = 3 if TINY else 10


def builder(config_path):
    with open(config_path, encoding="utf-8") as file:
        facts = json.load(file)
    config = AutoConfig.for_model(**{**facts, **(SMALL if TINY else {}), "use_cache": False})

    def build():
        torch.manual_seed(0)
        with torch.device(DEVICE):
            return AutoModelForCausalLM.from_config(config).eval()

    return build, config.vocab_size


def held():
    return torch.cuda.memory_allocated() if DEVICE == "cuda" else None


def settle():
    gc.collect()
    if DEVICE == "cuda":
        torch.cuda.synchronize()
        torch.cuda.empty_cache()


def measured(model, ids):
    """Seconds of one forward, and its logits."""
    with torch.inference_mode():
        for _ in range(2):
            logits = model(input_ids=ids).logits
        settle()
        begin = time.perf_counter()
        for _ in range(ROUNDS):
            logits = model(input_ids=ids).logits
        if DEVICE == "cuda":
            torch.cuda.synchronize()
        return (time.perf_counter() - begin) / ROUNDS, logits.float()


def ways(build):
    """Name, and what makes the model and tells what it says of itself."""

    def optimized(dtype=torch.bfloat16, **options):
        def make():
            model = build() if dtype is None else build().to(dtype)
            return model, plimsoll.optimize(model, training=False, **options).report()

        return make

    def loaded(preset):
        def make():
            model = plimsoll.load(build, preset=preset, cache=False, fallback=False)
            return model, {"preset": model.plimsoll_preset}

        return make

    yield "optimize: bfloat16", optimized(dtype=None)
    yield "optimize: prune 0.3", optimized(prune=0.3)
    yield 'optimize: prune "2:4"', optimized(prune="2:4")
    for preset in ("int8", "int4", "int4_double"):
        yield f"load: {preset}", loaded(preset)
    yield "load: int4_offload, room for half", lambda: offloaded(build)
    yield "load: fp16 under a cap that it passes", lambda: capped(build)


def offloaded(build):
    whole = sum(p.numel() * p.element_size() for p in build().parameters())
    settle()
    model = plimsoll.load(
        build, preset="int4_offload", cache=False, fallback=False, max_bytes=whole // 8
    )
    return model, {"preset": model.plimsoll_preset, "roomBytes": whole // 8}


def capped(build):
    """Room for three quarters of the weights in 16 bits: int8 fits, fp16 does not."""
    host = build().to("cpu", torch.bfloat16)
    size = sum(p.numel() * p.element_size() for p in host.parameters())
    room = size * 3 // 4
    settle()
    if DEVICE == "cuda":
        total = torch.cuda.get_device_properties(0).total_memory
        torch.cuda.set_per_process_memory_fraction((held() + room) / total)
    try:
        limit = {} if DEVICE == "cuda" else {"max_bytes": room}
        model = plimsoll.load(lambda: copy.deepcopy(host), preset="fp16", cache=False, **limit)
    finally:
        if DEVICE == "cuda":
            torch.cuda.set_per_process_memory_fraction(1.0)
    return model, {"preset": model.plimsoll_preset, "roomBytes": room}


def main():
    options = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    options.add_argument(
        "--config", default=os.path.join(HERE, "..", "truth", "configs", "llama-3.2-1b.json")
    )
    options.add_argument("--output")
    given = options.parse_args()
    build, vocabulary = builder(given.config)
    ids = torch.randint(0, vocabulary, SHAPE, device=DEVICE)
    settle()
    before = held()
    reference = build().to(torch.bfloat16)
    settle()
    base = {"heldBytes": before is not None and held() - before, "seconds": 0.0}
    base["seconds"], expected = measured(reference, ids)
    del reference
    found = {"plain bfloat16": base}
    print(f"{'':38} {'held':>10} {'of plain':>9} {'forward':>10} {'logits off':>10}  preset")
    row("plain bfloat16", base, base, {})
    for name, make in ways(build):
        settle()
        before = held()
        try:
            model, facts = make()
            settle()
            now = {"heldBytes": before is not None and held() - before, "report": facts}
            now["seconds"], logits = measured(model, ids)
            now["off"] = ((logits - expected).norm() / expected.norm()).item()
            del model, logits
        except Exception as error:
            now = {"error": f"{type(error).__name__}: {error}"[:300]}
            del error
        found[name] = now
        row(name, now, base, now.get("report", {}))
    if given.output:
        with open(given.output, "w", encoding="utf-8") as file:
            json.dump(found, file)
    return 1 if any("error" in one for one in found.values()) else 0


def row(name, one, base, facts):
    if "error" in one:
        print(f"{name:38} FAILED: {one['error']}", flush=True)
        return
    size = f"{one['heldBytes'] / 2**20:6.0f} MiB" if one["heldBytes"] else "unknown"
    share = f"{one['heldBytes'] / base['heldBytes']:.2f} x" if base["heldBytes"] else "unknown"
    skipped = "; ".join(
        f"{what}: {why}"
        for what, why in facts.get("skipped", {}).items()
        if what in ("prune", "dtype")
    )
    print(
        f"{name:38} {size:>10} {share:>9} {1000 * one['seconds']:7.1f} ms {one.get('off', 0):10.3f}  "
        f"{facts.get('preset', '')}{skipped}",
        flush=True,
    )


if __name__ == "__main__":
    sys.exit(main())
