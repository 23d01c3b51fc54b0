"""A language model whose layers route each token to two of eight experts, with a loss that balances them."""

import argparse
import math

import torch
import torch.nn.functional as F
from torch import nn


class Expert(nn.Module):
    def __init__(self, width, inner):
        super().__init__()
        self.gate = nn.Linear(width, inner, bias=False)
        self.up = nn.Linear(width, inner, bias=False)
        self.down = nn.Linear(inner, width, bias=False)

    def forward(self, x):
        return self.down(F.silu(self.gate(x)) * self.up(x))


class SparseMoE(nn.Module):
    def __init__(self, width, inner, experts, top_k):
        super().__init__()
        self.router = nn.Linear(width, experts, bias=False)
        self.experts = nn.ModuleList([Expert(width, inner) for _ in range(experts)])
        self.top_k = top_k

    def forward(self, x):
        shape = x.shape
        x = x.reshape(-1, shape[-1])
        probability = F.softmax(self.router(x).float(), dim=-1)
        weight, chosen = probability.topk(self.top_k, dim=-1)
        weight = weight / weight.sum(-1, keepdim=True)
        out = torch.zeros_like(x)
        for i, expert in enumerate(self.experts):
            row, slot = torch.where(chosen == i)
            if row.numel() == 0:
                continue
            answer = expert(x[row]) * weight[row, slot, None].to(x.dtype)
            out.index_add_(0, row, answer.to(out.dtype))
        share = F.one_hot(chosen, len(self.experts)).float().mean((0, 1))
        balance = len(self.experts) * (share * probability.mean(0)).sum()
        return out.view(shape), balance


class Block(nn.Module):
    def __init__(self, a):
        super().__init__()
        self.norm1, self.norm2 = nn.RMSNorm(a.width), nn.RMSNorm(a.width)
        self.qkv, self.out = nn.Linear(a.width, 3 * a.width), nn.Linear(a.width, a.width)
        self.moe = SparseMoE(a.width, a.inner, a.experts, 2)
        self.heads = a.heads

    def forward(self, x):
        b, t, w = x.shape
        q, k, v = (
            part.view(b, t, self.heads, -1).transpose(1, 2)
            for part in self.qkv(self.norm1(x)).split(w, dim=-1)
        )
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.out(y.transpose(1, 2).contiguous().view(b, t, w))
        y, balance = self.moe(self.norm2(x))
        return x + y, balance


class MoELM(nn.Module):
    def __init__(self, a):
        super().__init__()
        self.embed = nn.Embedding(a.vocab, a.width)
        self.position = nn.Parameter(torch.zeros(1, a.context, a.width))
        self.blocks = nn.ModuleList([Block(a) for _ in range(a.depth)])
        self.norm = nn.RMSNorm(a.width)
        self.head = nn.Linear(a.width, a.vocab, bias=False)

    def forward(self, ids, targets):
        x = self.embed(ids) + self.position[:, : ids.shape[1]]
        balance = 0.0
        for block in self.blocks:
            x, part = block(x)
            balance = balance + part
        loss = F.cross_entropy(self.head(self.norm(x)).flatten(0, 1).float(), targets.flatten())
        return loss, balance / len(self.blocks)


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--vocab", type=int, default=16384)
    p.add_argument("--context", type=int, default=512)
    p.add_argument("--width", type=int, default=640)
    p.add_argument("--inner", type=int, default=1280)
    p.add_argument("--heads", type=int, default=10)
    p.add_argument("--depth", type=int, default=8)
    p.add_argument("--experts", type=int, default=8)
    p.add_argument("--batch", type=int, default=16)
    p.add_argument("--steps", type=int, default=40)
    p.add_argument("--eval-every", type=int, default=20)
    p.add_argument("--balance", type=float, default=0.01)
    a = p.parse_args()
    torch.manual_seed(0)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    text = (torch.randint(0, 64, (500_000,)).cumsum(0) * 13 % a.vocab).to(device)
    model = MoELM(a).to(device)
    optimizer = torch.optim.AdamW(
        model.parameters(), lr=3e-4, betas=(0.9, 0.95), weight_decay=0.1, foreach=True
    )

    def batch(low, high):
        start = torch.randint(low, high - a.context - 1, (a.batch, 1), device=device)
        window = start + torch.arange(a.context + 1, device=device)
        return text[window[:, :-1]], text[window[:, 1:]]

    for step in range(1, a.steps + 1):
        with torch.autocast(device.type, dtype=torch.bfloat16):
            loss, balance = model(*batch(0, 450_000))
        total = loss + a.balance * balance
        if not math.isfinite(total.item()):
            print(f"step {step}: loss is {total.item()}, batch left out")
            optimizer.zero_grad()
            continue
        optimizer.zero_grad()
        total.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        if step % a.eval_every == 0:
            model.eval()
            with torch.no_grad(), torch.autocast(device.type, dtype=torch.bfloat16):
                held = torch.stack([model(*batch(450_000, 500_000))[0] for _ in range(5)]).mean()
            print(
                f"step {step}: {loss.item():.3f}, balance {balance.item():.3f}, held out {held:.3f}"
            )
            model.train()
    torch.save(model.state_dict(), "moe.pt")


if __name__ == "__main__":
    main()
