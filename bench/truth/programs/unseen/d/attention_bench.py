"""Three ways to write attention, timed forward and backward for growing lengths, with the memory after each."""

import argparse
import csv
import math

import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.checkpoint import checkpoint

GPU = torch.cuda.is_available()


class Attention(nn.Module):
    def __init__(self, width, heads, kind):
        super().__init__()
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.heads, self.kind = heads, kind

    def naive(self, q, k, v):
        scores = q @ k.transpose(-2, -1) / math.sqrt(q.shape[-1])
        hidden = torch.ones(scores.shape[-2:], dtype=torch.bool, device=q.device).triu(1)
        return scores.masked_fill(hidden, float("-inf")).softmax(-1) @ v

    def forward(self, x):
        b, t, w = x.shape
        q, k, v = self.qkv(x).view(b, t, 3, self.heads, w // self.heads).permute(2, 0, 3, 1, 4)
        if self.kind == "naive":
            y = self.naive(q, k, v)
        elif self.kind == "checkpointed":
            y = checkpoint(self.naive, q, k, v, use_reentrant=False)
        else:
            y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        return self.out(y.transpose(1, 2).reshape(b, t, w))


class Timer:
    """Milliseconds between its two ends, on the GPU's own clock where there is one."""

    def __enter__(self):
        if GPU:
            self.start = torch.cuda.Event(enable_timing=True)
            self.end = torch.cuda.Event(enable_timing=True)
            torch.cuda.synchronize()
            self.start.record()
        return self

    def __exit__(self, *_):
        self.milliseconds = float("nan")
        if GPU:
            self.end.record()
            torch.cuda.synchronize()
            self.milliseconds = self.start.elapsed_time(self.end)


def run(kind, length, a, device):
    torch.manual_seed(0)
    dtype = torch.bfloat16 if GPU else torch.float32
    layers = [Attention(a.width, a.heads, kind) for _ in range(a.layers)]
    model = nn.Sequential(*layers).to(device, dtype)
    x = torch.randn(a.batch, length, a.width, device=device, dtype=dtype, requires_grad=True)
    target = torch.randn(a.batch, length, a.width, device=device, dtype=dtype)
    forward, backward = [], []
    for i in range(a.warmup + a.repeats):
        with Timer() as one:
            loss = F.mse_loss(model(x).float(), target.float())
        with Timer() as two:
            loss.backward()
        if i >= a.warmup:
            forward.append(one.milliseconds)
            backward.append(two.milliseconds)
        model.zero_grad(set_to_none=True)
        x.grad = None
    row = {
        "kind": kind,
        "length": length,
        "forward_ms": round(sum(forward) / len(forward), 3),
        "backward_ms": round(sum(backward) / len(backward), 3),
    }
    if GPU:
        row["allocated_mib"] = torch.cuda.memory_allocated() // 2**20
        row["reserved_mib"] = torch.cuda.memory_reserved() // 2**20
    return row


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--width", type=int, default=1024)
    p.add_argument("--heads", type=int, default=16)
    p.add_argument("--layers", type=int, default=4)
    p.add_argument("--batch", type=int, default=4)
    p.add_argument("--lengths", type=int, nargs="+", default=[512, 1024, 2048, 3072])
    p.add_argument("--warmup", type=int, default=2)
    p.add_argument("--repeats", type=int, default=5)
    a = p.parse_args()
    device = torch.device("cuda" if GPU else "cpu")
    rows = []
    for length in a.lengths:
        for kind in ("sdpa", "checkpointed", "naive"):
            rows.append(run(kind, length, a, device))
            print(rows[-1], flush=True)
            torch.cuda.empty_cache()
    with open("attention.csv", "w", newline="") as file:
        writer = csv.DictWriter(file, rows[0].keys())
        writer.writeheader()
        writer.writerows(rows)
    if GPU:
        print(f"peak {torch.cuda.max_memory_allocated() / 2**30:.2f} GiB")


if __name__ == "__main__":
    main()
