"""A GPT that reads longer and longer texts (128 to 768 words), with Adan written by hand and samples at each stage."""

from __future__ import annotations

import argparse
import math
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import nn
from torch.optim import Optimizer


class Adan(Optimizer):
    def __init__(self, params, lr=1e-3, betas=(0.98, 0.92, 0.99), eps=1e-8, weight_decay=0.02):
        super().__init__(
            params, {"lr": lr, "betas": betas, "eps": eps, "weight_decay": weight_decay}
        )

    @torch.no_grad()
    def step(self, closure=None):
        for group in self.param_groups:
            b1, b2, b3 = group["betas"]
            for p in group["params"]:
                if p.grad is None:
                    continue
                s = self.state[p]
                if not s:
                    s["step"] = 0
                    for k in ("m", "v", "n"):
                        s[k] = torch.zeros_like(p)
                    s["last"] = p.grad.clone()
                s["step"] += 1
                change = p.grad - s["last"]
                s["m"].lerp_(p.grad, 1 - b1)
                s["v"].lerp_(change, 1 - b2)
                both = p.grad + b2 * change
                s["n"].mul_(b3).addcmul_(both, both, value=1 - b3)
                s["last"].copy_(p.grad)
                size = group["lr"] / ((s["n"] / (1 - b3 ** s["step"])).sqrt() + group["eps"])
                p.addcmul_(
                    size,
                    s["m"] / (1 - b1 ** s["step"]) + b2 * s["v"] / (1 - b2 ** s["step"]),
                    value=-1,
                )
                p.div_(1 + group["lr"] * group["weight_decay"])


@dataclass
class Shape:
    vocab: int
    width: int
    layers: int
    heads: int
    longest: int


class Layer(nn.Module):
    def __init__(self, s: Shape):
        super().__init__()
        self.heads = s.heads
        self.n1, self.n2 = nn.RMSNorm(s.width), nn.RMSNorm(s.width)
        self.qkv, self.o = (
            nn.Linear(s.width, 3 * s.width, bias=False),
            nn.Linear(s.width, s.width, bias=False),
        )
        self.gate, self.up = (nn.Linear(s.width, 8 * s.width // 3, bias=False) for _ in range(2))
        self.down = nn.Linear(8 * s.width // 3, s.width, bias=False)

    def forward(self, x):
        b, t, d = x.shape
        q, k, v = (
            self.qkv(self.n1(x)).view(b, t, 3, self.heads, -1).permute(2, 0, 3, 1, 4).unbind(0)
        )
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.o(y.transpose(1, 2).reshape(b, t, d))
        h = self.n2(x)
        return x + self.down(F.silu(self.gate(h)) * self.up(h))


class Reader(nn.Module):
    def __init__(self, s: Shape):
        super().__init__()
        self.s = s
        self.words, self.places = (
            nn.Embedding(s.vocab, s.width),
            nn.Embedding(s.longest, s.width),
        )
        self.layers = nn.ModuleList(Layer(s) for _ in range(s.layers))
        self.norm, self.out = (
            nn.RMSNorm(s.width),
            nn.Linear(s.width, s.vocab, bias=False),
        )

    def forward(self, ids):
        x = self.words(ids) + self.places(torch.arange(ids.size(1), device=ids.device))
        for layer in self.layers:
            x = layer(x)
        return self.out(self.norm(x))

    @torch.no_grad()
    def write(self, ids, count, k=50):
        for _ in range(count):
            logits = self(ids[:, -self.s.longest :])[:, -1].float()
            value, index = logits.topk(min(k, logits.size(-1)))
            pick = torch.multinomial(value.softmax(-1), 1)
            ids = torch.cat([ids, index.gather(1, pick)], 1)
        return ids


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--lengths", type=int, nargs="+", default=[128, 256, 512, 768])
    p.add_argument("--tokens", type=int, default=12288, help="words of a batch")
    p.add_argument("--steps", type=int, default=12, help="of each stage")
    p.add_argument("--vocab", type=int, default=20000)
    p.add_argument("--width", type=int, default=640)
    p.add_argument("--layers", type=int, default=8)
    p.add_argument("--heads", type=int, default=10)
    p.add_argument("--write", type=int, default=40)
    a = p.parse_args()
    torch.manual_seed(12)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    text = (torch.randn(400_000).cumsum(0) * 40).long().abs() % a.vocab
    model = Reader(Shape(a.vocab, a.width, a.layers, a.heads, max(a.lengths))).to(device)
    optimizer = Adan(model.parameters(), lr=8e-4)
    total, done = a.steps * len(a.lengths), 0
    for length in a.lengths:
        rows = max(1, a.tokens // length)
        for _ in range(a.steps):
            for group in optimizer.param_groups:
                group["lr"] = 8e-4 * 0.5 * (1 + math.cos(math.pi * done / total))
            start = torch.randint(0, len(text) - length - 1, (rows,))
            block = torch.stack([text[i : i + length + 1] for i in start.tolist()]).to(device)
            with torch.autocast(device.type, dtype=torch.bfloat16):
                logits = model(block[:, :-1])
                loss = F.cross_entropy(logits.flatten(0, 1), block[:, 1:].flatten())
            optimizer.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            done += 1
        model.eval()
        written = model.write(block[:4, :16], a.write)
        model.train()
        print(f"{length} words x {rows}: loss {loss.item():.3f}, wrote {written[0, -5:].tolist()}")
        torch.save(
            {"model": model.state_dict(), "optimizer": optimizer.state_dict()},
            "reader.pt",
        )


if __name__ == "__main__":
    main()
