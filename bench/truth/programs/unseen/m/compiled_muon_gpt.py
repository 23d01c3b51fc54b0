"""A GPT of one's own (RoPE, QK norm, squared ReLU) with blocks under torch.compile, trained on digits of sums; Muon for the matrices and AdamW for the rest."""

import argparse
import time

import numpy as np
import torch
import torch.nn.functional as F
from torch import nn


def rotate(x, cos, sin):
    a, b = x.chunk(2, -1)
    return torch.cat([a * cos - b * sin, a * sin + b * cos], -1)


class Block(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.qkv = nn.Linear(width, 3 * width, bias=False)
        self.proj = nn.Linear(width, width, bias=False)
        self.up = nn.Linear(width, 4 * width, bias=False)
        self.down = nn.Linear(4 * width, width, bias=False)
        nn.init.zeros_(self.proj.weight)
        nn.init.zeros_(self.down.weight)

    def forward(self, x, cos, sin):
        b, t, c = x.shape
        h = F.rms_norm(x, (c,))
        q, k, v = self.qkv(h).view(b, t, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        q = rotate(F.rms_norm(q, (q.size(-1),)), cos, sin)
        k = rotate(F.rms_norm(k, (k.size(-1),)), cos, sin)
        y = F.scaled_dot_product_attention(q.to(v.dtype), k.to(v.dtype), v, is_causal=True)
        x = x + self.proj(y.transpose(1, 2).reshape(b, t, c))
        return x + self.down(F.relu(self.up(F.rms_norm(x, (c,)))).square())


class GPT(nn.Module):
    def __init__(self, vocab, width, layers, heads, length):
        super().__init__()
        self.embed = nn.Embedding(vocab, width)
        self.blocks = nn.ModuleList(Block(width, heads) for _ in range(layers))
        self.head = nn.Linear(width, vocab, bias=False)
        half = width // heads // 2
        angle = torch.outer(torch.arange(length), 10_000 ** (-torch.arange(half) / half))
        self.register_buffer("cos", angle.cos(), persistent=False)
        self.register_buffer("sin", angle.sin(), persistent=False)

    def forward(self, ids, targets):
        t = ids.size(1)
        x = self.embed(ids)
        for block in self.blocks:
            x = block(x, self.cos[:t], self.sin[:t])
        logits = self.head(F.rms_norm(x, (x.size(-1),)))
        return F.cross_entropy(logits.float().flatten(0, 1), targets.flatten())


class SumStream:
    """Tokens of made-up arithmetic, memory-mapped style."""

    def __init__(self, tokens, vocab, seed):
        rng = np.random.default_rng(seed)
        self.data = (rng.random(tokens) ** 3 * vocab).astype(np.uint16)
        self.rng = rng

    def batch(self, size, length, device):
        at = self.rng.integers(0, len(self.data) - length - 1, size)
        rows = np.stack([self.data[i : i + length + 1] for i in at]).astype(np.int64)
        ids = torch.from_numpy(rows).to(device, non_blocking=True)
        return ids[:, :-1], ids[:, 1:]


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--device", default="cuda")
    p.add_argument("--vocab", type=int, default=50_304)
    p.add_argument("--width", type=int, default=768)
    p.add_argument("--layers", type=int, default=12)
    p.add_argument("--heads", type=int, default=6)
    p.add_argument("--length", type=int, default=1024)
    p.add_argument("--batch", type=int, default=16)
    p.add_argument("--steps", type=int, default=24)
    p.add_argument("--cooldown", type=float, default=0.4)
    p.add_argument("--no-compile", action="store_true")
    a = p.parse_args()
    torch.manual_seed(1)
    torch.set_float32_matmul_precision("high")

    model = GPT(a.vocab, a.width, a.layers, a.heads, a.length).to(a.device)
    if not a.no_compile:
        for block in model.blocks:  # one compilation serves all blocks
            block.compile()
    matrices = [q for q in model.blocks.parameters() if q.ndim == 2]
    optimizers = [
        torch.optim.Muon(matrices, lr=0.02, momentum=0.95, weight_decay=0.01),
        torch.optim.AdamW(
            [
                {"params": [model.embed.weight], "lr": 0.3 * a.width**-0.5},
                {"params": [model.head.weight], "lr": 0.003},
            ],
            betas=(0.8, 0.95),
            weight_decay=0.0,
        ),
    ]
    flat = 1 - a.cooldown
    schedules = [
        torch.optim.lr_scheduler.LambdaLR(
            o,
            lambda s: 1.0
            if s < flat * a.steps
            else max(0.0, (a.steps - s) / (a.cooldown * a.steps)),
        )
        for o in optimizers
    ]
    stream, held_out = SumStream(2_000_000, a.vocab, 1), SumStream(200_000, a.vocab, 2)
    for step in range(a.steps):
        began = time.perf_counter()
        ids, targets = stream.batch(a.batch, a.length, a.device)
        with torch.autocast(a.device, torch.bfloat16):
            loss = model(ids, targets)
        loss.backward()
        for optimizer, schedule in zip(optimizers, schedules):
            optimizer.step()
            schedule.step()
        model.zero_grad(set_to_none=True)
        if step % 4 == 0 or step == a.steps - 1:
            print(
                f"step {step} loss {loss.item():.4f} {1000 * (time.perf_counter() - began):.0f} ms"
            )
    with torch.no_grad(), torch.autocast(a.device, torch.bfloat16):
        losses = [model(*held_out.batch(a.batch, a.length, a.device)) for _ in range(2)]
    print("held out", torch.stack(losses).mean().item())


if __name__ == "__main__":
    main()
