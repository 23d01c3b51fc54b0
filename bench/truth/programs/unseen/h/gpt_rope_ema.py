"""A decoder written by hand (RoPE, RMSNorm, SwiGLU), bf16 autocast, clipping, EMA weights, samples at the end."""

import argparse
import copy
import math
import time

import torch
import torch.nn.functional as F
from torch import nn


def rope_table(length, dim, device, base=10000.0):
    freq = base ** (-torch.arange(0, dim, 2, device=device).float() / dim)
    angle = torch.arange(length, device=device).float()[:, None] * freq[None]
    return angle.cos(), angle.sin()


def rotate(x, cos, sin):
    a, b = x.float().chunk(2, dim=-1)
    return torch.cat([a * cos - b * sin, a * sin + b * cos], dim=-1).to(x.dtype)


class RMSNorm(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(dim))

    def forward(self, x):
        return self.weight * x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6)


class Block(nn.Module):
    def __init__(self, dim, heads):
        super().__init__()
        self.heads = heads
        inner = int(dim * 8 / 3 / 64) * 64 or 64
        self.n1, self.n2 = RMSNorm(dim), RMSNorm(dim)
        self.qkv = nn.Linear(dim, 3 * dim, bias=False)
        self.out = nn.Linear(dim, dim, bias=False)
        self.gate, self.up = nn.Linear(dim, inner, bias=False), nn.Linear(dim, inner, bias=False)
        self.down = nn.Linear(inner, dim, bias=False)

    def forward(self, x, cos, sin):
        b, t, d = x.shape
        q, k, v = (
            self.qkv(self.n1(x)).view(b, t, 3, self.heads, d // self.heads).permute(2, 0, 3, 1, 4)
        )
        q, k = rotate(q, cos, sin), rotate(k, cos, sin)
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.out(y.transpose(1, 2).reshape(b, t, d))
        h = self.n2(x)
        return x + self.down(F.silu(self.gate(h)) * self.up(h))


class GPT(nn.Module):
    def __init__(self, vocab, dim, layers, heads):
        super().__init__()
        self.dim, self.heads = dim, heads
        self.embed = nn.Embedding(vocab, dim)
        self.blocks = nn.ModuleList(Block(dim, heads) for _ in range(layers))
        self.norm = RMSNorm(dim)
        self.head = nn.Linear(dim, vocab, bias=False)
        self.head.weight = self.embed.weight
        nn.init.normal_(self.embed.weight, std=0.02)

    def forward(self, ids):
        cos, sin = rope_table(ids.shape[1], self.dim // self.heads, ids.device)
        x = self.embed(ids)
        for block in self.blocks:
            x = block(x, cos, sin)
        return self.head(self.norm(x))


@torch.no_grad()
def sample(model, start, n, context, temperature=0.9):
    ids = start
    for _ in range(n):
        with torch.autocast(ids.device.type, dtype=torch.bfloat16):
            logits = model(ids[:, -context:])[:, -1].float() / temperature
        ids = torch.cat([ids, torch.multinomial(logits.softmax(-1), 1)], dim=1)
    return ids


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--vocab", type=int, default=32000)
    p.add_argument("--dim", type=int, default=1024)
    p.add_argument("--layers", type=int, default=12)
    p.add_argument("--heads", type=int, default=16)
    p.add_argument("--context", type=int, default=1024)
    p.add_argument("--batch", type=int, default=8)
    p.add_argument("--steps", type=int, default=30)
    p.add_argument("--lr", type=float, default=6e-4)
    a = p.parse_args()
    torch.manual_seed(1337)
    torch.set_float32_matmul_precision("high")
    device = "cuda"
    data = (torch.rand(400_000) ** 2 * a.vocab).long()
    train, valid = data[:360_000], data[360_000:]

    def batch(source, size):
        at = torch.randint(len(source) - a.context - 1, (size,))
        x = torch.stack([source[i : i + a.context] for i in at])
        y = torch.stack([source[i + 1 : i + a.context + 1] for i in at])
        return x.to(device), y.to(device)

    model = GPT(a.vocab, a.dim, a.layers, a.heads).to(device)
    ema = copy.deepcopy(model).requires_grad_(False).eval()
    optimizer = torch.optim.AdamW(model.parameters(), lr=a.lr, betas=(0.9, 0.95), weight_decay=0.1)
    print(f"{sum(q.numel() for q in model.parameters()) / 1e6:.1f}M parameters")
    began = time.time()
    for step in range(a.steps):
        rate = a.lr * min(1, (step + 1) / 5) * 0.5 * (1 + math.cos(math.pi * step / a.steps))
        for group in optimizer.param_groups:
            group["lr"] = rate
        x, y = batch(train, a.batch)
        with torch.autocast(device, dtype=torch.bfloat16):
            logits = model(x)
            loss = F.cross_entropy(logits.view(-1, a.vocab), y.view(-1))
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        norm = nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        with torch.no_grad():
            for e, q in zip(ema.parameters(), model.parameters()):
                e.lerp_(q, 0.05)
        if step % 10 == 0:
            print(
                f"step {step} loss {loss.item():.3f} norm {norm.item():.2f} {time.time() - began:.1f}s"
            )
    with torch.no_grad(), torch.autocast(device, dtype=torch.bfloat16):
        losses = []
        for _ in range(4):
            x, y = batch(valid, 4)
            losses.append(F.cross_entropy(ema(x).float().view(-1, a.vocab), y.view(-1)).item())
    print(f"EMA valid loss {sum(losses) / len(losses):.3f}")
    print(sample(ema, valid[:16][None].repeat(2, 1).to(device), 40, a.context)[0, 16:].tolist())
    torch.save(
        {"model": model.state_dict(), "ema": ema.state_dict(), "args": vars(a)}, "gpt_rope.pt"
    )


if __name__ == "__main__":
    main()
