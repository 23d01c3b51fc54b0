"""Two ranks that share one GPU, each under a cap: a recovering step with DDP and with FSDP2.

    python3 bench/gpu/two_ranks.py [--device cpu] --output FILE

Gloo carries what ranks exchange, since NCCL refuses two ranks on one card; a step of FSDP2 in parts of one
sample then takes seconds. With DDP the batch does not fit under the cap and must be cut: the gradients are
held against those of one process that takes all in small parts. With FSDP2 the step must grow its parts and
end with the same weights on both ranks.
"""

import argparse
import faulthandler
import json
import os
import socket
import subprocess
import sys
import time

# By device: width of the model; and by way: samples of a rank. FSDP2 begins with parts of one sample.
WIDTHS = {"cuda": 1024, "cpu": 64}
SAMPLES = {
    "ddp": {"cuda": 16384, "cpu": 32},
    "fsdp2": {"cuda": 64, "cpu": 32},
}
BLOCKS = 2
CAP_BYTES = 700 * 2**20
# Of one way; only ends what hangs.
LIMIT_SECONDS = 180


def build(torch, device):
    width = WIDTHS[device]
    torch.manual_seed(0)
    blocks = [
        torch.nn.Sequential(
            torch.nn.Linear(width, 4 * width),
            torch.nn.GELU(),
            torch.nn.Linear(4 * width, width),
        )
        for _ in range(BLOCKS)
    ]
    return torch.nn.Sequential(*blocks).to(device)


def batch_of(torch, way, rank, device):
    generator = torch.Generator().manual_seed(100 + rank)
    return torch.randn(SAMPLES[way][device], WIDTHS[device], generator=generator).to(device)


def whole_of(torch, dist, parameter):
    """All of a parameter, in host memory, whichever ranks hold its parts."""
    local = getattr(parameter, "_local_tensor", None)
    if local is None:
        return parameter.detach().cpu()
    parts = [None, None]
    dist.all_gather_object(parts, local.detach().cpu())
    return torch.cat(parts)


def rank_main(way, rank, port, device, folder):
    sys.path.insert(0, folder)
    # Where a rank hangs or crashes, it says where before it is ended.
    faulthandler.enable()
    faulthandler.dump_traceback_later(LIMIT_SECONDS - 20)
    import torch
    import torch.distributed as dist

    import plimsoll

    dist.init_process_group("gloo", init_method=f"tcp://127.0.0.1:{port}", rank=rank, world_size=2)
    if device == "cuda":
        total = torch.cuda.get_device_properties(0).total_memory
        torch.cuda.set_per_process_memory_fraction(CAP_BYTES / total, 0)
    model = build(torch, device)
    if way == "ddp":
        wrapped = torch.nn.parallel.DistributedDataParallel(model)
    else:
        from torch.distributed.device_mesh import init_device_mesh
        from torch.distributed.fsdp import fully_shard

        mesh = init_device_mesh(device, (2,))
        for layer in model:
            fully_shard(layer, mesh=mesh)
        wrapped = fully_shard(model, mesh=mesh)
    optimizer = torch.optim.SGD(wrapped.parameters(), lr=1.0)
    step = plimsoll.recovering(wrapped, optimizer, lambda b: wrapped(b).pow(2).mean())
    began = time.monotonic()
    batch = batch_of(torch, way, rank, device)
    step(batch)
    result = {
        "rank": rank,
        "parts": list(step.partition),
        "seconds": time.monotonic() - began,
        "samples": sum(step.partition) == len(batch),
        "peak": torch.cuda.max_memory_allocated() if device == "cuda" else None,
    }
    whole = [whole_of(torch, dist, p) for p in model.parameters()]
    after = torch.cat([p.reshape(-1) for p in whole])
    result["checksum"] = float(after.double().sum())
    result["difference"] = difference(torch, way, after, device)
    result["later"] = []
    for _ in range(3):
        step(batch)
        result["later"].append(list(step.partition)[:8])
    print(json.dumps(result), flush=True)
    dist.barrier()
    os._exit(0)


def difference(torch, way, after, device):
    """Beside one process: the mean of both ranks' gradients, added up in small parts."""
    model = build(torch, device)
    for rank in range(2):
        for part in batch_of(torch, way, rank, device).split(256):
            share = len(part) / SAMPLES[way][device] / 2
            (model(part).pow(2).mean() * share).backward()
    before = torch.cat([p.detach().reshape(-1).cpu() for p in model.parameters()])
    grads = torch.cat([p.grad.reshape(-1).cpu() for p in model.parameters()])
    return float(((before - grads) - after).abs().max() / grads.abs().max())


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--output", default="-")
    parser.add_argument("--way", action="append", choices=tuple(SAMPLES))
    parser.add_argument(
        "--package", default=os.path.join(os.path.dirname(__file__), "../../python")
    )
    parser.add_argument("--rank", nargs=3)
    given = parser.parse_args()
    folder = os.path.abspath(given.package)
    if given.rank:
        way, rank, port = given.rank
        rank_main(way, int(rank), port, given.device, folder)
    told = {}
    for way in given.way or ("ddp", "fsdp2"):
        with socket.socket() as one:
            one.bind(("127.0.0.1", 0))
            port = str(one.getsockname()[1])
        command = [
            sys.executable,
            __file__,
            "--device",
            given.device,
            "--package",
            folder,
            "--rank",
        ]
        ranks = [
            subprocess.Popen([*command, way, str(rank), port], stdout=-1, stderr=-1, text=True)
            for rank in range(2)
        ]
        told[way] = []
        for one in ranks:
            try:
                out, err = one.communicate(timeout=LIMIT_SECONDS)
                failed = {"exit": one.returncode, "said": err[-4000:]}
                told[way].append(json.loads(out.splitlines()[-1]) if out.strip() else failed)
            except subprocess.TimeoutExpired:
                one.kill()
                told[way].append(f"it hung for {LIMIT_SECONDS} s: {one.communicate()[1][-4000:]}")
    text = json.dumps(told, indent=1)
    if given.output == "-":
        print(text)
    else:
        with open(given.output, "w") as file:
            file.write(text)


if __name__ == "__main__":
    main()
