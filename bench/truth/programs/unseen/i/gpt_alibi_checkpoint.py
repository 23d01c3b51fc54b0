"""Decoder-only transformer written by hand: ALiBi, SwiGLU, RMSNorm, activation checkpointing, gradient accumulation."""

import argparse
import math
import time

import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.checkpoint import checkpoint


class RMSNorm(nn.Module):
    def __init__(self, d):
        super().__init__()
        self.w = nn.Parameter(torch.ones(d))

    def forward(self, x):
        return (x.float() * torch.rsqrt(x.float().pow(2).mean(-1, keepdim=True) + 1e-6)).type_as(
            x
        ) * self.w


class Attention(nn.Module):
    def __init__(self, d, heads):
        super().__init__()
        self.h = heads
        self.qkv, self.out = nn.Linear(d, 3 * d, bias=False), nn.Linear(d, d, bias=False)
        self.register_buffer(
            "slopes",
            torch.tensor([2 ** (-8 * (i + 1) / heads) for i in range(heads)]),
            persistent=False,
        )

    def forward(self, x):
        b, t, d = x.shape
        q, k, v = self.qkv(x).view(b, t, 3, self.h, d // self.h).permute(2, 0, 3, 1, 4)
        pos = torch.arange(t, device=x.device)
        rel = pos[None, :] - pos[:, None]
        bias = (rel[None] * self.slopes[:, None, None]).masked_fill(rel[None] > 0, float("-inf"))
        att = (q @ k.transpose(-1, -2)) / math.sqrt(d // self.h) + bias
        return self.out((att.softmax(-1).type_as(v) @ v).transpose(1, 2).reshape(b, t, d))


class Block(nn.Module):
    def __init__(self, d, heads):
        super().__init__()
        hidden = int(8 * d / 3) // 64 * 64
        self.n1, self.att, self.n2 = RMSNorm(d), Attention(d, heads), RMSNorm(d)
        self.gate, self.up, self.down = (
            nn.Linear(d, hidden, bias=False),
            nn.Linear(d, hidden, bias=False),
            nn.Linear(hidden, d, bias=False),
        )

    def forward(self, x):
        x = x + self.att(self.n1(x))
        h = self.n2(x)
        return x + self.down(F.silu(self.gate(h)) * self.up(h))


class GPT(nn.Module):
    def __init__(self, vocab, d, heads, layers):
        super().__init__()
        self.emb = nn.Embedding(vocab, d)
        self.blocks = nn.ModuleList(Block(d, heads) for _ in range(layers))
        self.norm = RMSNorm(d)
        self.head = nn.Linear(d, vocab, bias=False)
        self.head.weight = self.emb.weight
        nn.init.normal_(self.emb.weight, std=0.02)

    def forward(self, idx, targets=None):
        x = self.emb(idx)
        for blk in self.blocks:
            x = checkpoint(blk, x, use_reentrant=False) if self.training else blk(x)
        logits = self.head(self.norm(x))
        if targets is None:
            return logits
        return F.cross_entropy(logits.flatten(0, 1).float(), targets.flatten())

    @torch.no_grad()
    def generate(self, idx, n, top_k=40):
        for _ in range(n):
            logits = self(idx)[:, -1].float()
            v, i = logits.topk(top_k)
            pick = torch.multinomial(v.softmax(-1), 1)
            idx = torch.cat([idx, i.gather(1, pick)], 1)
        return idx


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--vocab", type=int, default=16384)
    p.add_argument("--d", type=int, default=768)
    p.add_argument("--heads", type=int, default=12)
    p.add_argument("--layers", type=int, default=10)
    p.add_argument("--ctx", type=int, default=1024)
    p.add_argument("--micro", type=int, default=16)
    p.add_argument("--accum", type=int, default=2)
    p.add_argument("--steps", type=int, default=6)
    a = p.parse_args()
    device = "cuda" if torch.cuda.is_available() else "cpu"
    stream = torch.randint(0, a.vocab, (400_000,))
    val = torch.randint(0, a.vocab, (50_000,))

    def batch(data, n):
        ix = torch.randint(0, len(data) - a.ctx - 1, (n,)).tolist()
        x = torch.stack([data[i : i + a.ctx] for i in ix])
        y = torch.stack([data[i + 1 : i + 1 + a.ctx] for i in ix])
        return x.to(device), y.to(device)

    model = GPT(a.vocab, a.d, a.heads, a.layers).to(device)
    print(f"{sum(q.numel() for q in model.parameters()) / 1e6:.1f}M")
    opt = torch.optim.AdamW(model.parameters(), lr=6e-4, betas=(0.9, 0.95), weight_decay=0.1)
    sched = torch.optim.lr_scheduler.SequentialLR(
        opt,
        [
            torch.optim.lr_scheduler.LinearLR(opt, 0.1, 1.0, 2),
            torch.optim.lr_scheduler.CosineAnnealingLR(opt, a.steps),
        ],
        [2],
    )
    for step in range(a.steps):
        t0 = time.time()
        model.train()
        total = 0.0
        for _ in range(a.accum):
            x, y = batch(stream, a.micro)
            with torch.autocast(device, dtype=torch.bfloat16):
                loss = model(x, y) / a.accum
            loss.backward()
            total += loss.item()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        opt.step()
        opt.zero_grad(set_to_none=True)
        sched.step()
        print(
            f"step {step} loss {total:.3f} {a.accum * a.micro * a.ctx / (time.time() - t0):.0f} tok/s"
        )
    model.eval()
    with torch.no_grad(), torch.autocast(device, dtype=torch.bfloat16):
        losses = [model(*batch(val, a.micro // 2)).item() for _ in range(3)]
        sample = model.generate(stream[None, :32].to(device), 24)
    print("val loss", sum(losses) / 3, "sample", sample[0, -8:].tolist())
    torch.save({"model": model.state_dict(), "opt": opt.state_dict()}, "gpt_alibi.pt")


if __name__ == "__main__":
    main()
