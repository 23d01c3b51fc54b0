"""One training job of the mix: a real model with random weights, real steps.

    python3 bench/gpu/mix/mix_job.py '{"model": "gpt2", "batch": 8, ...}' --seconds 8 --output done.json

Trains for so many steps (--steps), or for as many as fit into so many seconds (--seconds, five at
least). The batches come from a thread that needs loaderMs for each of them, as data that must be
read and decoded does: a job whose loader is slower than its model leaves the GPU to others.
"""

import argparse
import json
import os
import queue
import sys
import threading
import time
from contextlib import nullcontext
from types import SimpleNamespace

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))

import torch
from measure_cases import from_config, from_script, from_torchvision, optimizer_of

LEAST_STEPS = 5


def build(job, device):
    """The model on its device, and what makes batches, forward pass and loss."""
    precision = job["precision"]
    dtype = {"bf16": torch.bfloat16, "fp16": torch.float16}.get(precision, torch.float32)
    folder, name = os.path.split(job.get("path", ""))
    case = {**job, "mode": "train", "model": os.path.splitext(name)[0] or job["model"]}
    torch.set_default_dtype(dtype)
    with torch.device(device):
        if job["source"] == "config":
            made = from_config(case, SimpleNamespace(configs=folder), dtype)
        elif job["source"] == "script":
            made = from_script(case, SimpleNamespace(scripts=folder))
        else:
            made = from_torchvision(case, dtype)
    torch.set_default_dtype(torch.float32)
    made[0].to(device).train()
    return made


def on(device, batch):
    if isinstance(batch, torch.Tensor):
        return batch.to(device)
    if isinstance(batch, dict):
        return {key: on(device, value) for key, value in batch.items()}
    return (
        tuple(on(device, value) for value in batch) if isinstance(batch, (tuple, list)) else batch
    )


def load(make_batch, loader_ms, ready, stop):
    """Batches on the host, two ahead of the model."""
    while not stop.is_set():
        time.sleep(loader_ms / 1000)
        batch = make_batch()
        while not stop.is_set():
            try:
                ready.put(batch, timeout=0.2)
                break
            except queue.Full:
                pass


def train(job, options, device):
    model, make_batch, forward, loss_of = build(job, device)
    optimizer = optimizer_of(job["optimizer"], [p for p in model.parameters() if p.requires_grad])
    amp = {"amp-bf16": torch.bfloat16, "amp-fp16": torch.float16}.get(job["precision"])
    ready, stop = queue.Queue(maxsize=2), threading.Event()
    loader = threading.Thread(
        target=load, args=(make_batch, job.get("loaderMs", 0), ready, stop), daemon=True
    )
    loader.start()
    losses, begun, at = [], time.perf_counter(), time.time()
    while not ended(len(losses), time.perf_counter() - begun, options):
        batch = on(device, ready.get())
        with torch.autocast(device.split(":")[0], dtype=amp) if amp else nullcontext():
            result = forward(batch)
            loss = loss_of(result, batch)
            # Only the loss outlives the forward pass, as in `loss = model(**batch).loss`.
            del result
        loss.backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        # Waits for the step: what is counted is done.
        losses.append(loss.item())
    seconds = time.perf_counter() - begun
    stop.set()
    # A thread inside torch while Python ends would abort the process.
    loader.join()
    return losses, seconds, at


def ended(steps, seconds, options):
    if options.steps is not None:
        return steps >= options.steps
    return steps >= LEAST_STEPS and seconds >= options.seconds


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("job", help="as in jobs.json")
    parser.add_argument("--steps", type=int)
    parser.add_argument("--seconds", type=float, default=8)
    parser.add_argument("--output", required=True)
    parser.add_argument("--device", default=os.environ.get("PLIMSOLL_TORCH_DEVICE"))
    options = parser.parse_args()
    begun = time.perf_counter()
    job = json.loads(options.job)
    device = options.device or ("cuda:0" if torch.cuda.is_available() else "cpu")
    torch.manual_seed(0)
    if device == "cpu":
        # Several jobs share the cores.
        torch.set_num_threads(1)
    losses, seconds, at = train(job, options, device)
    on_gpu = device.startswith("cuda")
    result = {
        "name": job["name"],
        "device": device,
        "steps": len(losses),
        "samples": len(losses) * job["batch"],
        "stepSeconds": seconds / len(losses),
        "trainedFrom": at,
        "trainedTo": at + seconds,
        "seconds": time.perf_counter() - begun,
        "firstLoss": losses[0],
        "lastLoss": losses[-1],
        "peakReservedBytes": torch.cuda.max_memory_reserved() if on_gpu else None,
    }
    with open(options.output, "w") as file:
        json.dump(result, file)
    print(json.dumps(result), flush=True)


if __name__ == "__main__":
    main()
