"""A GPT trained with Sophia-G by hand: every tenth step the curvature, from labels that the model draws."""

import argparse
import math
from dataclasses import dataclass, fields

import torch
import torch.nn.functional as F
from torch import nn


@dataclass
class Config:
    vocab: int = 32768
    context: int = 512
    layers: int = 12
    heads: int = 12
    width: int = 768
    batch: int = 16
    steps: int = 34
    hessian_every: int = 10
    lr: float = 4e-4
    warmup: int = 10


class SophiaG(torch.optim.Optimizer):
    def __init__(self, params, lr=1e-4, betas=(0.965, 0.99), rho=0.04, weight_decay=0.1):
        super().__init__(
            params, {"lr": lr, "betas": betas, "rho": rho, "weight_decay": weight_decay}
        )

    @torch.no_grad()
    def update_hessian(self, tokens):
        for group in self.param_groups:
            _, beta = group["betas"]
            for p in group["params"]:
                if p.grad is None:
                    continue
                state = self._state(p)
                state["hessian"].mul_(beta).addcmul_(p.grad, p.grad, value=(1 - beta) * tokens)

    def _state(self, p):
        state = self.state[p]
        if not state:
            state["momentum"] = torch.zeros_like(p)
            state["hessian"] = torch.zeros_like(p)
        return state

    @torch.no_grad()
    def step(self, closure=None):
        for group in self.param_groups:
            beta, _ = group["betas"]
            for p in group["params"]:
                if p.grad is None:
                    continue
                state = self._state(p)
                p.mul_(1 - group["lr"] * group["weight_decay"])
                state["momentum"].mul_(beta).add_(p.grad, alpha=1 - beta)
                ratio = state["momentum"].abs() / (group["rho"] * state["hessian"] + 1e-15)
                p.addcmul_(state["momentum"].sign(), ratio.clamp(max=1.0), value=-group["lr"])


class Block(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.heads = c.heads
        self.ln1, self.ln2 = nn.LayerNorm(c.width), nn.LayerNorm(c.width)
        self.qkv = nn.Linear(c.width, 3 * c.width, bias=False)
        self.out = nn.Linear(c.width, c.width, bias=False)
        self.mlp = nn.Sequential(
            nn.Linear(c.width, 4 * c.width), nn.GELU(), nn.Linear(4 * c.width, c.width)
        )

    def forward(self, x):
        b, t, d = x.shape
        q, k, v = self.qkv(self.ln1(x)).view(b, t, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.out(y.transpose(1, 2).reshape(b, t, d))
        return x + self.mlp(self.ln2(x))


class GPT(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.tokens = nn.Embedding(c.vocab, c.width)
        self.positions = nn.Embedding(c.context, c.width)
        self.blocks = nn.ModuleList([Block(c) for _ in range(c.layers)])
        self.norm = nn.LayerNorm(c.width)
        self.head = nn.Linear(c.width, c.vocab, bias=False)
        self.head.weight = self.tokens.weight
        self.apply(self._init)

    def _init(self, m):
        if isinstance(m, (nn.Linear, nn.Embedding)):
            nn.init.normal_(m.weight, std=0.02)

    def forward(self, ids):
        x = self.tokens(ids) + self.positions(torch.arange(ids.shape[1], device=ids.device))
        for block in self.blocks:
            x = block(x)
        return self.head(self.norm(x))


def get_batch(stream, c, device):
    start = torch.randint(0, len(stream) - c.context - 1, (c.batch,))
    x = torch.stack([stream[i : i + c.context] for i in start])
    y = torch.stack([stream[i + 1 : i + 1 + c.context] for i in start])
    if device == "cuda":
        return x.pin_memory().to(device, non_blocking=True), y.pin_memory().to(
            device, non_blocking=True
        )
    return x, y


def learning_rate(step, c):
    if step < c.warmup:
        return c.lr * (step + 1) / c.warmup
    return c.lr * 0.5 * (1 + math.cos(math.pi * (step - c.warmup) / max(c.steps - c.warmup, 1)))


def main():
    parser = argparse.ArgumentParser()
    for f in fields(Config):
        parser.add_argument(f"--{f.name}", type=f.type, default=f.default)
    c = Config(**vars(parser.parse_args()))
    torch.manual_seed(1337)
    device = "cuda" if torch.cuda.is_available() else "cpu"
    stream = (torch.arange(400_000) * 31 + torch.randint(0, 50, (400_000,))) % c.vocab
    model = GPT(c).to(device)
    decay = [p for p in model.parameters() if p.dim() >= 2]
    rest = [p for p in model.parameters() if p.dim() < 2]
    optimizer = SophiaG([{"params": decay}, {"params": rest, "weight_decay": 0.0}], lr=c.lr)
    for step in range(c.steps):
        for group in optimizer.param_groups:
            group["lr"] = learning_rate(step, c)
        x, y = get_batch(stream, c, device)
        with torch.autocast(device, dtype=torch.bfloat16):
            loss = F.cross_entropy(model(x).flatten(0, 1), y.flatten())
        loss.backward()
        norm = nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        if step % c.hessian_every == c.hessian_every - 1:
            x, _ = get_batch(stream, c, device)
            with torch.autocast(device, dtype=torch.bfloat16):
                logits = model(x)
                drawn = torch.distributions.Categorical(logits=logits).sample()
                sampled = F.cross_entropy(logits.flatten(0, 1), drawn.flatten())
            sampled.backward()
            optimizer.update_hessian(tokens=c.batch * c.context)
            optimizer.zero_grad(set_to_none=True)
            print(f"step {step}: loss {loss.item():.3f}, norm {norm.item():.2f}")
    torch.save({"model": model.state_dict(), "optimizer": optimizer.state_dict()}, "sophia.pt")


if __name__ == "__main__":
    main()
