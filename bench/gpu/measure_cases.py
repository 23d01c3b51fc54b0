"""Peaks of real runs on a GPU, each in a fresh process: what estimates are held against.

    python3 bench/gpu/measure_cases.py fresh --output fresh-cases.json [--configs FOLDER --scripts FOLDER]

A case names its model, mode, batch, seq, precision, optimizer and checkpointing. Four steps of:
batch, forward, backward, optimizer step, zero_grad(set_to_none=True). The peaks count from the
moment the model is built and what building it left over was given back. With --max-batch a case
has a cap in GiB instead of a batch, and the answer is the largest batch that trains for three
steps, and the smallest seen to fail.
"""

import argparse
import gc
import importlib.util
import json
import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext

from recording import Recording
from truth import cases_of, with_folders

STEPS = 4
CASE_SECONDS = 300


def build(case, options):
    """The model on the GPU, a function that makes a batch, and one that turns a batch into a loss."""
    import torch

    precision = case["precision"]
    dtype = {"bf16": torch.bfloat16, "fp16": torch.float16}.get(precision, torch.float32)
    torch.set_default_dtype(dtype)
    with torch.device("cuda"):
        if case["source"] == "config":
            made = from_config(case, options, dtype)
        elif case["source"] == "torchvision":
            made = from_torchvision(case, dtype)
        else:
            made = from_script(case, options)
    torch.set_default_dtype(torch.float32)
    # Some models make a tensor without asking where it belongs.
    made[0].to("cuda").train(case["mode"] == "train")
    return made


def from_config(case, options, dtype):
    import torch
    import transformers

    with open(os.path.join(options.configs, case["model"] + ".json")) as file:
        config = transformers.AutoConfig.for_model(**json.load(file))
    model = getattr(transformers, config.architectures[0])._from_config(config, dtype=dtype)
    training = case["mode"] == "train"
    if training and hasattr(model.config, "use_cache"):
        model.config.use_cache = False
    if case["checkpointing"]:
        model.gradient_checkpointing_enable()
    text = config.get_text_config() if hasattr(config, "get_text_config") else config
    vision = getattr(config, "vision_config", config)
    b, s = case["batch"], case["seq"]

    def batch():
        kind = model.main_input_name
        if hasattr(config, "vision_config"):
            made = {
                "input_ids": torch.randint(0, text.vocab_size, (b, s)),
                "pixel_values": torch.randn(b, 3, case["image"], case["image"], dtype=dtype),
            }
            return {**made, "return_loss": True} if training else made
        if kind == "pixel_values":
            made = {"pixel_values": torch.randn(b, vision.num_channels, s, s, dtype=dtype)}
            return (
                {**made, "labels": torch.randint(0, config.num_labels, (b,))} if training else made
            )
        if kind == "input_features":
            frames = 2 * config.max_source_positions
            return {
                "input_features": torch.randn(b, config.num_mel_bins, frames, dtype=dtype),
                "labels": torch.randint(0, config.vocab_size, (b, s)),
            }
        if kind == "input_values":
            made = {"input_values": torch.randn(b, s, dtype=dtype)}
            return (
                {**made, "labels": torch.randint(0, config.vocab_size, (b, s // 1000))}
                if training
                else made
            )
        ids = torch.randint(0, text.vocab_size, (b, s))
        if config.is_encoder_decoder:
            return {"input_ids": ids, "labels": torch.randint(0, text.vocab_size, (b, s // 2))}
        if "SequenceClassification" in config.architectures[0]:
            return (
                {"input_ids": ids, "labels": torch.randint(0, config.num_labels, (b,))}
                if training
                else {"input_ids": ids}
            )
        return {"input_ids": ids, "labels": ids} if training else {"input_ids": ids}

    return model, batch, lambda given: model(**given), lambda result, given: result.loss


def from_torchvision(case, dtype):
    import torch
    import torchvision

    name = {"mobilenet_v3": "mobilenet_v3_large"}.get(case["model"], case["model"])
    model = torchvision.models.get_model(name, weights=None)
    b, s = case["batch"], case["seq"]

    def batch():
        return torch.randn(b, 3, s, s, dtype=dtype), torch.randint(0, 1000, (b,))

    return (
        model,
        batch,
        lambda given: model(given[0]),
        lambda result, given: torch.nn.functional.cross_entropy(result, given[1]),
    )


def from_script(case, options):
    path = os.path.join(options.scripts, case["model"].replace("-", "_") + ".py")
    spec = importlib.util.spec_from_file_location("case_script", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    args = case.get("args") or {"batch": case["batch"], "seq": case["seq"]}
    made = module.workload(**args)
    given = made["batch"]
    model, loss = made["model"], made["loss"]
    batch = given if callable(given) else lambda: given
    if case["mode"] == "train":
        # A loss may come with more, which then lives as long as it does.
        def first(result, _):
            return result[0] if isinstance(result, tuple) else result

        return model, batch, lambda given: loss(model, given), first
    return (
        model,
        batch,
        lambda given: model(*given[:1]) if isinstance(given, tuple) else model(given),
        None,
    )


def optimizer_of(name, parameters):
    import torch

    if name == "adafactor":
        return torch.optim.Adafactor(parameters, lr=1e-4)
    if name.startswith("sgd"):
        return torch.optim.SGD(parameters, lr=1e-4, momentum=0.9 if name == "sgd-momentum" else 0)
    return torch.optim.AdamW(
        parameters, lr=1e-4, **({"fused": True} if name == "adamw-fused" else {})
    )


def run_steps(case, made, steps):
    import torch

    model, make_batch, forward, loss_of = made
    amp = {"amp-bf16": torch.bfloat16, "amp-fp16": torch.float16}.get(case["precision"])

    def cast():
        return torch.autocast("cuda", dtype=amp) if amp else nullcontext()

    if case["mode"] == "infer":
        with torch.inference_mode():
            for _ in range(steps):
                with torch.device("cuda"):
                    batch = make_batch()
                with cast():
                    forward(batch)
                torch.cuda.synchronize()
        return
    optimizer = optimizer_of(case["optimizer"], [p for p in model.parameters() if p.requires_grad])
    for _ in range(steps):
        with torch.device("cuda"):
            batch = make_batch()
        with cast():
            result = forward(batch)
            loss = loss_of(result, batch)
            if case["source"] == "config":
                # Only the loss outlives the forward pass, as in `loss = model(**batch).loss`.
                del result
        loss.backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        torch.cuda.synchronize()


def measure(case, options):
    import torch

    torch.cuda.init()
    cap = case.get("cap_gib")
    total = torch.cuda.get_device_properties(0).total_memory
    if cap:
        torch.cuda.set_per_process_memory_fraction(cap * 2**30 / total)
    recording = Recording(case) if options.events else None
    made = build(case, options)
    model = made[0]
    if recording:
        recording.mark("built")
    gc.collect()
    torch.cuda.empty_cache()
    loaded = torch.cuda.memory_allocated()
    torch.cuda.reset_peak_memory_stats()
    if recording:
        recording.mark("ready")
    run_steps(case, made, 3 if cap else STEPS)
    if recording:
        recording.mark("end")
        recording.save(options.events)
    return {
        **case,
        "params": sum(p.numel() for p in model.parameters()),
        "param_bytes": sum(p.numel() * p.element_size() for p in model.parameters()),
        "buffer_bytes": sum(b.numel() * b.element_size() for b in model.buffers()),
        "loaded": loaded,
        "peak_allocated": torch.cuda.max_memory_allocated(),
        "peak_reserved": torch.cuda.max_memory_reserved(),
        "process_used": process_used(),
    }


def process_used():
    """What the driver counts for this process; null where it tells no process apart."""
    try:
        lines = subprocess.run(
            ["nvidia-smi", "--query-compute-apps=pid,used_memory", "--format=csv,noheader,nounits"],
            check=False,
            capture_output=True,
            text=True,
            timeout=20,
        ).stdout.splitlines()
        for line in lines:
            pid, used = line.split(",")
            if int(pid) == os.getpid():
                return int(used) << 20
    except (OSError, ValueError, subprocess.TimeoutExpired):
        pass
    return None


def in_fresh_process(case, options):
    command = [sys.executable, __file__, "--one", json.dumps(case)]
    command += ["--configs", options.configs, "--scripts", options.scripts]
    command += ["--events", options.events] if options.events else []
    try:
        ended = subprocess.run(
            command, check=False, capture_output=True, text=True, timeout=CASE_SECONDS
        )
    except subprocess.TimeoutExpired:
        return {**case, "error": f"took longer than {CASE_SECONDS} s"}
    for line in reversed(ended.stdout.splitlines()):
        if line.startswith("{"):
            return json.loads(line)
    lines = ended.stderr.strip().splitlines() or [f"exit code {ended.returncode}"]
    return {**case, "error": lines[-1][:300]}


def largest_batch(case, options):
    """Bisects between a batch that trains and one that does not; each try in a process of its own."""
    fits, fails = 0, None
    batch = case["start"]
    while fails is None or fails - fits > max(1, case.get("grain", 1)):
        tried = in_fresh_process({**case, "batch": batch}, options)
        if "error" in tried and "out of memory" not in tried["error"].lower():
            return {**case, "error": tried["error"]}
        if "error" in tried:
            fails = batch
        else:
            fits = batch
        batch = fits * 2 if fails is None else (fits + fails) // 2
    return {**case, "max_fits": fits, "min_ooms": fails}


def save(path, results):
    import torch
    import transformers

    properties = torch.cuda.get_device_properties(0)
    answer = {
        "gpu": properties.name,
        "torch": torch.__version__,
        "transformers": transformers.__version__,
        "total": properties.total_memory,
        "results": results,
    }
    with open(path, "w") as file:
        json.dump(answer, file, indent=1)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("cases", nargs="?", help="a file, or a list of bench/truth/cases")
    parser.add_argument("--configs", help="those of bench/truth/cases as a rule")
    parser.add_argument("--scripts", help="those of bench/truth/cases as a rule")
    parser.add_argument("--output")
    parser.add_argument("--events", help="a folder for all that the allocator is asked for")
    parser.add_argument("--parallel", type=int, default=6)
    parser.add_argument("--max-batch", action="store_true")
    parser.add_argument("--one", help=argparse.SUPPRESS)
    options = with_folders(parser.parse_args())
    if options.one:
        print(json.dumps(measure(json.loads(options.one), options)))
        return
    cases = cases_of(options.cases)
    work = largest_batch if options.max_batch else in_fresh_process
    done = []
    with ThreadPoolExecutor(options.parallel) as pool:
        for result in pool.map(lambda case: work(case, options), cases):
            done.append(result)
            answer = result.get("error") or result.get("max_fits") or result["peak_reserved"]
            print(result.get("id", result["model"]), answer, flush=True)
            save(options.output, done)
    for index, result in enumerate(done):
        # A neighbour may have taken the memory: alone it gets a second chance.
        if "out of memory" in result.get("error", ""):
            done[index] = work(cases[index], options)
            print("again", cases[index].get("id"), done[index].get("error"), flush=True)
            save(options.output, done)


if __name__ == "__main__":
    main()
