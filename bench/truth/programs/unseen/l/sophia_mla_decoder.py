"""Decoder with multi-head latent attention (compressed keys and values) on chess games, trained by Sophia-G: the curvature comes from sampled labels every few steps."""

import argparse
import json
import math
import os
import tempfile

import torch
import torch.nn.functional as F
from torch import nn


class SophiaG(torch.optim.Optimizer):
    def __init__(self, params, lr=3e-4, betas=(0.965, 0.99), rho=0.04, weight_decay=0.1):
        super().__init__(params, dict(lr=lr, betas=betas, rho=rho, weight_decay=weight_decay))

    def _state(self, p):
        s = self.state[p]
        if not s:
            s["m"], s["h"] = torch.zeros_like(p), torch.zeros_like(p)
        return s

    @torch.no_grad()
    def update_hessian(self, scale):
        for group in self.param_groups:
            for p in group["params"]:
                if p.grad is not None:
                    self._state(p)["h"].mul_(group["betas"][1]).addcmul_(
                        p.grad, p.grad, value=(1 - group["betas"][1]) * scale
                    )

    @torch.no_grad()
    def step(self, closure=None):
        for group in self.param_groups:
            for p in group["params"]:
                if p.grad is None:
                    continue
                s = self._state(p)
                s["m"].lerp_(p.grad, 1 - group["betas"][0])
                p.mul_(1 - group["lr"] * group["weight_decay"])
                ratio = (s["m"].abs() / (group["rho"] * s["h"] + 1e-15)).clamp_(max=1)
                p.addcmul_(s["m"].sign(), ratio, value=-group["lr"])


def rope(length, dim, device):
    inv = 1 / 10000 ** (torch.arange(0, dim, 2, device=device) / dim)
    angle = torch.arange(length, device=device)[:, None] * inv
    return angle.cos(), angle.sin()


def rotate(x, cos, sin):
    a, b = x[..., ::2], x[..., 1::2]
    return torch.stack([a * cos - b * sin, a * sin + b * cos], -1).flatten(-2).to(x.dtype)


class LatentAttention(nn.Module):
    def __init__(self, dim, heads, latent, plain=64, turned=32):
        super().__init__()
        self.heads, self.plain, self.turned = heads, plain, turned
        self.q = nn.Linear(dim, heads * (plain + turned), bias=False)
        self.compress = nn.Linear(dim, latent + turned, bias=False)
        self.norm = nn.RMSNorm(latent)
        self.expand = nn.Linear(latent, heads * 2 * plain, bias=False)
        self.out = nn.Linear(heads * plain, dim, bias=False)

    def forward(self, x, cos, sin):
        b, t, _ = x.shape
        q = self.q(x).view(b, t, self.heads, -1).transpose(1, 2)
        q = torch.cat([q[..., : self.plain], rotate(q[..., self.plain :], cos, sin)], -1)
        c, shared = self.compress(x).split([self.norm.normalized_shape[0], self.turned], -1)
        k, v = (
            self.expand(self.norm(c))
            .view(b, t, self.heads, 2 * self.plain)
            .transpose(1, 2)
            .chunk(2, -1)
        )
        shared = rotate(shared.unsqueeze(1), cos, sin).expand(-1, self.heads, -1, -1)
        y = F.scaled_dot_product_attention(
            q, torch.cat([k, shared], -1), v.contiguous(), is_causal=True
        )
        return self.out(y.transpose(1, 2).reshape(b, t, -1))


class Decoder(nn.Module):
    def __init__(self, vocab, dim, layers, heads, latent):
        super().__init__()
        self.embed = nn.Embedding(vocab, dim)
        self.attn = nn.ModuleList(LatentAttention(dim, heads, latent) for _ in range(layers))
        self.mlp = nn.ModuleList(
            nn.ModuleList(
                [
                    nn.Linear(dim, 3 * dim, bias=False),
                    nn.Linear(dim, 3 * dim, bias=False),
                    nn.Linear(3 * dim, dim, bias=False),
                ]
            )
            for _ in range(layers)
        )
        self.norms = nn.ModuleList(nn.RMSNorm(dim) for _ in range(2 * layers + 1))
        self.head = nn.Linear(dim, vocab, bias=False)
        for p in self.parameters():
            if p.ndim == 2:
                nn.init.normal_(p, std=0.02)

    def forward(self, ids):
        cos, sin = rope(ids.shape[1], 32, ids.device)
        x = self.embed(ids)
        for i, (attn, (gate, up, down)) in enumerate(zip(self.attn, self.mlp)):
            x = x + attn(self.norms[2 * i](x), cos, sin)
            y = self.norms[2 * i + 1](x)
            x = x + down(F.silu(gate(y)) * up(y))
        return self.head(self.norms[-1](x))


def games(n, length, vocab, gen, device):
    ids = torch.randint(0, vocab, (n, length + 1), generator=gen)
    ids[:, 1::2] = (ids[:, ::2][:, : ids[:, 1::2].shape[1]] * 7 + 3) % vocab
    return ids[:, :-1].to(device), ids[:, 1:].to(device)


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--vocab", type=int, default=20_000)
    p.add_argument("--dim", type=int, default=768)
    p.add_argument("--layers", type=int, default=12)
    p.add_argument("--heads", type=int, default=12)
    p.add_argument("--latent", type=int, default=192)
    p.add_argument("--length", type=int, default=768)
    p.add_argument("--batch", type=int, default=26)
    p.add_argument("--steps", type=int, default=40)
    p.add_argument("--every", type=int, default=5)
    a = p.parse_args()
    torch.manual_seed(37)
    gen = torch.Generator().manual_seed(37)
    device = "cuda" if torch.cuda.is_available() else "cpu"
    model = Decoder(a.vocab, a.dim, a.layers, a.heads, a.latent).to(device)
    opt = SophiaG(model.parameters())
    sched = torch.optim.lr_scheduler.LambdaLR(
        opt, lambda s: min(1, (s + 1) / 5) * 0.5 * (1 + math.cos(math.pi * s / a.steps))
    )
    history = []
    for step in range(a.steps):
        x, y = games(a.batch, a.length, a.vocab, gen, device)
        with torch.autocast(device, torch.bfloat16):
            loss = F.cross_entropy(model(x).flatten(0, 1), y.flatten())
        opt.zero_grad(set_to_none=True)
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        opt.step()
        sched.step()
        history.append(loss.item())
        if step % a.every == a.every - 1:
            with torch.autocast(device, torch.bfloat16):
                logits = model(x).flatten(0, 1)
                labels = torch.distributions.Categorical(logits=logits.detach().float()).sample()
                sampled = F.cross_entropy(logits, labels)
            opt.zero_grad(set_to_none=True)
            sampled.backward()
            opt.update_hessian(scale=x.numel())
            opt.zero_grad(set_to_none=True)
            print(f"step {step + 1} loss {loss.item():.3f} sampled {sampled.item():.3f}")
    model.eval()
    with torch.no_grad(), torch.autocast(device, torch.bfloat16):
        x, y = games(a.batch, a.length, a.vocab, gen, device)
        print("test", F.cross_entropy(model(x).flatten(0, 1), y.flatten()).item())
    with tempfile.TemporaryDirectory() as folder:
        torch.save(model.state_dict(), os.path.join(folder, "decoder.pt"))
        with open(os.path.join(folder, "history.json"), "w") as f:
            json.dump(history, f)


if __name__ == "__main__":
    main()
