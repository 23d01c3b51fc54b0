"""Decoder with parallel attention/MLP blocks and QK-norm, every block compiled on its own, trained with a hand-written Lion."""

import math
import time
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import nn


@dataclass
class Config:
    vocab: int = 32000
    width: int = 1024
    heads: int = 16
    layers: int = 16
    context: int = 1024
    batch: int = 12
    steps: int = 30
    lr: float = 1e-4
    weight_decay: float = 0.3
    warmup: int = 5


class Lion(torch.optim.Optimizer):
    def __init__(self, params, lr=1e-4, betas=(0.9, 0.99), weight_decay=0.0):
        super().__init__(params, dict(lr=lr, betas=betas, weight_decay=weight_decay))

    @torch.no_grad()
    def step(self, closure=None):
        for group in self.param_groups:
            b1, b2 = group["betas"]
            for p in group["params"]:
                if p.grad is None:
                    continue
                state = self.state[p]
                if not state:
                    state["m"] = torch.zeros_like(p)
                m = state["m"]
                p.mul_(1 - group["lr"] * group["weight_decay"])
                update = m.mul(b1).add_(p.grad, alpha=1 - b1).sign_()
                p.add_(update, alpha=-group["lr"])
                m.mul_(b2).add_(p.grad, alpha=1 - b2)


class ParallelBlock(nn.Module):
    def __init__(self, cfg):
        super().__init__()
        self.h = cfg.heads
        d = cfg.width
        self.inner = int(8 * d / 3 / 64) * 64
        self.norm = nn.LayerNorm(d, bias=False)
        self.fused = nn.Linear(d, 3 * d + 2 * self.inner, bias=False)
        self.out = nn.Linear(d + self.inner, d, bias=False)
        self.q_norm = nn.RMSNorm(d // cfg.heads)
        self.k_norm = nn.RMSNorm(d // cfg.heads)

    def forward(self, x):
        B, T, D = x.shape
        q, k, v, gate, up = self.fused(self.norm(x)).split(
            [D, D, D, self.inner, self.inner], dim=-1
        )
        q = self.q_norm(q.view(B, T, self.h, -1)).transpose(1, 2).to(v.dtype)
        k = self.k_norm(k.view(B, T, self.h, -1)).transpose(1, 2).to(v.dtype)
        v = v.view(B, T, self.h, -1).transpose(1, 2)
        a = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        a = a.transpose(1, 2).reshape(B, T, D)
        return x + self.out(torch.cat([a, F.silu(gate) * up], dim=-1))


class Decoder(nn.Module):
    def __init__(self, cfg):
        super().__init__()
        self.tok = nn.Embedding(cfg.vocab, cfg.width)
        self.pos = nn.Embedding(cfg.context, cfg.width)
        self.blocks = nn.ModuleList(ParallelBlock(cfg) for _ in range(cfg.layers))
        self.norm = nn.LayerNorm(cfg.width, bias=False)
        self.head = nn.Linear(cfg.width, cfg.vocab, bias=False)
        self.head.weight = self.tok.weight
        for m in self.modules():
            if isinstance(m, (nn.Linear, nn.Embedding)):
                nn.init.normal_(m.weight, std=0.02)

    def forward(self, ids, targets):
        x = self.tok(ids) + self.pos.weight[: ids.shape[1]]
        for block in self.blocks:
            x = block(x)
        logits = self.head(self.norm(x))
        return F.cross_entropy(logits.view(-1, logits.size(-1)).float(), targets.reshape(-1))


def main():
    cfg = Config()
    torch.manual_seed(1234)
    torch.set_float32_matmul_precision("high")
    device = "cuda" if torch.cuda.is_available() else "cpu"
    model = Decoder(cfg).to(device)
    for block in model.blocks:
        block.compile()
    decay = [p for p in model.parameters() if p.dim() >= 2]
    rest = [p for p in model.parameters() if p.dim() < 2]
    opt = Lion(
        [{"params": decay, "weight_decay": cfg.weight_decay}, {"params": rest}],
        lr=cfg.lr,
    )
    schedule = torch.optim.lr_scheduler.LambdaLR(
        opt,
        lambda s: min(1.0, (s + 1) / cfg.warmup)
        * 0.5
        * (1 + math.cos(math.pi * min(1.0, s / cfg.steps))),
    )
    corpus = torch.randint(0, cfg.vocab, (400_000,))
    start = time.time()
    for step in range(cfg.steps):
        at = torch.randint(0, len(corpus) - cfg.context - 1, (cfg.batch,))
        rows = torch.stack([corpus[i : i + cfg.context + 1] for i in at]).to(device)
        with torch.autocast(device, dtype=torch.bfloat16):
            loss = model(rows[:, :-1], rows[:, 1:])
        opt.zero_grad(set_to_none=True)
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        opt.step()
        schedule.step()
        if step % 5 == 0:
            print(f"{step:3d} | loss {loss.item():.4f} | {time.time() - start:.1f}s")


if __name__ == "__main__":
    main()
