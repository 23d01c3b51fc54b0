"""Character model: a stack of transformer blocks with parallel attention and MLP, torch.compile, bf16."""

import random
import time

import numpy as np
import torch
import torch.nn.functional as F
from torch import nn

DIM = 768
DEPTH = 10
HEADS = 12
CONTEXT = 512
BATCH = 48
ITERS = 30
CHARS = 256


class ParallelBlock(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm = nn.LayerNorm(DIM)
        self.fused = nn.Linear(DIM, 3 * DIM + 4 * DIM, bias=False)
        self.attn_out = nn.Linear(DIM, DIM, bias=False)
        self.mlp_out = nn.Linear(4 * DIM, DIM, bias=False)

    def forward(self, x):
        B, T, _ = x.shape
        q, k, v, m = self.fused(self.norm(x)).split([DIM, DIM, DIM, 4 * DIM], dim=-1)
        q, k, v = [t.view(B, T, HEADS, DIM // HEADS).transpose(1, 2) for t in (q, k, v)]
        a = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        a = a.transpose(1, 2).reshape(B, T, DIM)
        return x + self.attn_out(a) + self.mlp_out(F.relu(m).square())


class CharModel(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(CHARS, DIM)
        self.place = nn.Parameter(torch.zeros(1, CONTEXT, DIM))
        self.stack = nn.Sequential(*[ParallelBlock() for _ in range(DEPTH)])
        self.norm = nn.LayerNorm(DIM)
        self.read = nn.Linear(DIM, CHARS)

    def forward(self, ids, targets):
        x = self.stack(self.embed(ids) + self.place)
        logits = self.read(self.norm(x))
        return F.cross_entropy(logits.view(-1, CHARS), targets.reshape(-1))


def seed_all(s):
    random.seed(s)
    np.random.seed(s)
    torch.manual_seed(s)


def main():
    seed_all(1812)
    device = "cuda" if torch.cuda.is_available() else "cpu"
    torch.set_float32_matmul_precision("high")
    book = torch.from_numpy(np.random.randint(0, CHARS, 1_000_000)).to(device)
    model = CharModel().to(device)
    opt = torch.optim.AdamW(model.parameters(), lr=6e-4, betas=(0.9, 0.95), weight_decay=0.1)
    model = torch.compile(model)

    offsets = torch.arange(CONTEXT + 1, device=device)
    clock = time.time()
    for it in range(ITERS):
        start = torch.randint(0, len(book) - CONTEXT - 1, (BATCH, 1), device=device)
        chunk = book[start + offsets]
        with torch.autocast(device, dtype=torch.bfloat16):
            loss = model(chunk[:, :-1], chunk[:, 1:])
        loss.backward()
        opt.step()
        opt.zero_grad(set_to_none=True)
        if it % 10 == 0:
            print(f"iter {it} loss {loss.item():.4f} time {time.time() - clock:.1f}s")


if __name__ == "__main__":
    main()
