"""Decoder-only LM with grouped-query attention and SwiGLU; micro batches accumulated to one update."""

import argparse
import math
import random

import numpy as np
import torch
import torch.nn.functional as F
from torch import nn

parser = argparse.ArgumentParser()
parser.add_argument("--dim", type=int, default=1024)
parser.add_argument("--layers", type=int, default=14)
parser.add_argument("--heads", type=int, default=16)
parser.add_argument("--kv-heads", type=int, default=4)
parser.add_argument("--vocab", type=int, default=32000)
parser.add_argument("--context", type=int, default=1024)
parser.add_argument("--micro-batch", type=int, default=8)
parser.add_argument("--accumulate", type=int, default=4)
parser.add_argument("--updates", type=int, default=8)
parser.add_argument("--lr", type=float, default=3e-4)


def rotary(context, head_dim, device):
    freq = 1.0 / (10000 ** (torch.arange(0, head_dim, 2, device=device).float() / head_dim))
    angles = torch.outer(torch.arange(context, device=device).float(), freq)
    return angles.cos(), angles.sin()


def rotate(x, cos, sin):
    a, b = x.float().chunk(2, dim=-1)
    return torch.cat([a * cos - b * sin, a * sin + b * cos], dim=-1).type_as(x)


class Attention(nn.Module):
    def __init__(self, dim, heads, kv_heads):
        super().__init__()
        self.heads, self.kv_heads, self.hd = heads, kv_heads, dim // heads
        self.q = nn.Linear(dim, heads * self.hd, bias=False)
        self.kv = nn.Linear(dim, 2 * kv_heads * self.hd, bias=False)
        self.o = nn.Linear(dim, dim, bias=False)

    def forward(self, x, cos, sin):
        B, T, C = x.shape
        q = self.q(x).view(B, T, self.heads, self.hd).transpose(1, 2)
        k, v = self.kv(x).view(B, T, 2, self.kv_heads, self.hd).permute(2, 0, 3, 1, 4)
        q, k = rotate(q, cos, sin), rotate(k, cos, sin)
        rep = self.heads // self.kv_heads
        k = k.repeat_interleave(rep, dim=1)
        v = v.repeat_interleave(rep, dim=1)
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        return self.o(y.transpose(1, 2).reshape(B, T, C))


class Layer(nn.Module):
    def __init__(self, dim, heads, kv_heads):
        super().__init__()
        hidden = 256 * math.ceil(8 * dim / 3 / 256)
        self.n1 = nn.RMSNorm(dim)
        self.n2 = nn.RMSNorm(dim)
        self.attn = Attention(dim, heads, kv_heads)
        self.gate = nn.Linear(dim, hidden, bias=False)
        self.up = nn.Linear(dim, hidden, bias=False)
        self.down = nn.Linear(hidden, dim, bias=False)

    def forward(self, x, cos, sin):
        x = x + self.attn(self.n1(x), cos, sin)
        h = self.n2(x)
        return x + self.down(F.silu(self.gate(h)) * self.up(h))


class Decoder(nn.Module):
    def __init__(self, a):
        super().__init__()
        self.emb = nn.Embedding(a.vocab, a.dim)
        self.layers = nn.ModuleList([Layer(a.dim, a.heads, a.kv_heads) for _ in range(a.layers)])
        self.norm = nn.RMSNorm(a.dim)
        self.lm_head = nn.Linear(a.dim, a.vocab, bias=False)
        self.head_dim = a.dim // a.heads
        self.apply(self._init)

    @staticmethod
    def _init(m):
        if isinstance(m, (nn.Linear, nn.Embedding)):
            nn.init.normal_(m.weight, std=0.02)

    def forward(self, ids, targets):
        cos, sin = rotary(ids.size(1), self.head_dim, ids.device)
        x = self.emb(ids)
        for layer in self.layers:
            x = layer(x, cos, sin)
        logits = self.lm_head(self.norm(x))
        return F.cross_entropy(logits.flatten(0, 1), targets.flatten())


if __name__ == "__main__":
    args = parser.parse_args()
    random.seed(42)
    np.random.seed(42)
    torch.manual_seed(42)
    dev = "cuda" if torch.cuda.is_available() else "cpu"
    torch.set_float32_matmul_precision("high")

    corpus = torch.from_numpy(np.random.randint(0, args.vocab, 2_000_000))
    model = Decoder(args).to(dev)
    decay = [p for p in model.parameters() if p.dim() >= 2]
    rest = [p for p in model.parameters() if p.dim() < 2]
    opt = torch.optim.AdamW(
        [{"params": decay, "weight_decay": 0.1}, {"params": rest, "weight_decay": 0.0}],
        lr=args.lr,
        betas=(0.9, 0.95),
    )
    print(f"{sum(p.numel() for p in model.parameters()) / 1e6:.1f}M parameters")

    for update in range(args.updates):
        total = 0.0
        for _ in range(args.accumulate):
            start = torch.randint(0, len(corpus) - args.context - 1, (args.micro_batch,))
            chunk = torch.stack([corpus[s : s + args.context + 1] for s in start.tolist()]).to(dev)
            with torch.autocast(dev, dtype=torch.bfloat16):
                loss = model(chunk[:, :-1], chunk[:, 1:]) / args.accumulate
            loss.backward()
            total += loss.item()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        opt.step()
        opt.zero_grad(set_to_none=True)
        print(f"update {update} loss {total:.4f}")
