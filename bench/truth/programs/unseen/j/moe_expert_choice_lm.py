"""Language model with expert-choice mixture of experts: each expert takes its top tokens (fixed capacity)."""

import random
from types import SimpleNamespace

import numpy as np
import torch
import torch.nn.functional as F
from torch import nn

cfg = SimpleNamespace(
    dim=768,
    depth=8,
    heads=12,
    experts=8,
    capacity=2.0,
    vocab=24000,
    seq=768,
    batch=12,
    steps=20,
    lr=4e-4,
)


class ExpertChoice(nn.Module):
    def __init__(self, dim, experts, capacity):
        super().__init__()
        self.experts, self.capacity = experts, capacity
        self.router = nn.Linear(dim, experts, bias=False)
        self.w1 = nn.Parameter(torch.randn(experts, dim, 4 * dim) * 0.02)
        self.w2 = nn.Parameter(torch.randn(experts, 4 * dim, dim) * 0.02)

    def forward(self, x):
        shape = x.shape
        x = x.reshape(-1, shape[-1])
        n = x.size(0)
        k = int(n * self.capacity / self.experts)
        scores = self.router(x.float()).softmax(-1)  # (n, e)
        gate, idx = scores.t().topk(k, dim=1)  # (e, k)
        tokens = x[idx]  # (e, k, d)
        h = F.gelu(torch.bmm(tokens, self.w1))
        y = torch.bmm(h, self.w2) * gate.unsqueeze(-1)
        out = torch.zeros(n, shape[-1], device=x.device, dtype=y.dtype)
        out = out.index_add(0, idx.reshape(-1), y.reshape(-1, shape[-1]))
        return out.view(shape)


class Block(nn.Module):
    def __init__(self, c, moe):
        super().__init__()
        self.heads = c.heads
        self.ln1, self.ln2 = nn.LayerNorm(c.dim), nn.LayerNorm(c.dim)
        self.qkv, self.proj = nn.Linear(c.dim, 3 * c.dim), nn.Linear(c.dim, c.dim)
        if moe:
            self.ff = ExpertChoice(c.dim, c.experts, c.capacity)
        else:
            self.ff = nn.Sequential(
                nn.Linear(c.dim, 4 * c.dim), nn.GELU(), nn.Linear(4 * c.dim, c.dim)
            )

    def forward(self, x):
        b, t, d = x.shape
        q, k, v = (
            z.view(b, t, self.heads, -1).transpose(1, 2)
            for z in self.qkv(self.ln1(x)).split(d, dim=2)
        )
        a = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.proj(a.transpose(1, 2).reshape(b, t, d))
        return x + self.ff(self.ln2(x))


class MoELM(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.tok, self.pos = nn.Embedding(c.vocab, c.dim), nn.Embedding(c.seq, c.dim)
        self.blocks = nn.ModuleList([Block(c, moe=i % 2 == 1) for i in range(c.depth)])
        self.ln, self.head = nn.LayerNorm(c.dim), nn.Linear(c.dim, c.vocab, bias=False)

    def forward(self, ids):
        x = self.tok(ids) + self.pos(torch.arange(ids.size(1), device=ids.device))
        for b in self.blocks:
            x = b(x)
        return self.head(self.ln(x))


def main():
    random.seed(55)
    np.random.seed(55)
    torch.manual_seed(55)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    model = MoELM(cfg).to(device)
    opt = torch.optim.AdamW(model.parameters(), lr=cfg.lr)
    sched = torch.optim.lr_scheduler.LambdaLR(opt, lambda s: min(1.0, (s + 1) / 8))
    print("parameters", sum(p.numel() for p in model.parameters()))
    for step in range(cfg.steps):
        ids = torch.randint(0, cfg.vocab, (cfg.batch, cfg.seq + 1)).to(device)
        with torch.autocast(device.type, dtype=torch.bfloat16):
            logits = model(ids[:, :-1])
        loss = F.cross_entropy(logits.float().reshape(-1, cfg.vocab), ids[:, 1:].reshape(-1))
        opt.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        opt.step()
        sched.step()
        if step % 5 == 0:
            print(f"step {step} loss {loss.item():.4f}")


if __name__ == "__main__":
    main()
