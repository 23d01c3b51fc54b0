"""I-JEPA on aerial tiles: context encoder, EMA target encoder, narrow predictor; hidden matrices by Muon, the rest by AdamW; linear probe at the end."""

import argparse
import copy
import math
import random

import torch
import torch.nn.functional as F
from torch import nn


def newton_schulz(g, steps=5):
    a, b, c = 3.4445, -4.7750, 2.0315
    x = g.bfloat16()
    tall = x.size(0) > x.size(1)
    if tall:
        x = x.T
    x = x / (x.norm() + 1e-7)
    for _ in range(steps):
        s = x @ x.T
        x = a * x + (b * s + c * s @ s) @ x
    return x.T if tall else x


class Muon(torch.optim.Optimizer):
    def __init__(self, params, lr=0.02, momentum=0.95, weight_decay=0.0):
        super().__init__(params, dict(lr=lr, momentum=momentum, weight_decay=weight_decay))

    @torch.no_grad()
    def step(self, closure=None):
        for group in self.param_groups:
            for p in group["params"]:
                if p.grad is None:
                    continue
                buf = self.state[p].setdefault("momentum", torch.zeros_like(p))
                buf.lerp_(p.grad, 1 - group["momentum"])
                update = newton_schulz(p.grad.lerp(buf, group["momentum"]))
                p.mul_(1 - group["lr"] * group["weight_decay"])
                p.add_(
                    update.to(p.dtype), alpha=-group["lr"] * max(1, p.size(0) / p.size(1)) ** 0.5
                )


class Block(nn.Module):
    def __init__(self, dim, heads):
        super().__init__()
        self.n1, self.n2, self.heads = nn.LayerNorm(dim), nn.LayerNorm(dim), heads
        self.qkv, self.proj = nn.Linear(dim, 3 * dim), nn.Linear(dim, dim)
        self.fc1, self.fc2 = nn.Linear(dim, 4 * dim), nn.Linear(4 * dim, dim)

    def forward(self, x):
        b, n, d = x.shape
        q, k, v = (
            self.qkv(self.n1(x)).view(b, n, 3, self.heads, d // self.heads).permute(2, 0, 3, 1, 4)
        )
        x = x + self.proj(F.scaled_dot_product_attention(q, k, v).transpose(1, 2).reshape(b, n, d))
        return x + self.fc2(F.gelu(self.fc1(self.n2(x))))


def grid_positions(dim, side):
    omega = 1 / 10000 ** (torch.arange(dim // 4) / (dim // 4))
    at = torch.arange(side).float()[:, None] * omega
    one = torch.cat([at.sin(), at.cos()], 1)
    return torch.cat(
        [one[:, None].expand(-1, side, -1), one[None].expand(side, -1, -1)], -1
    ).reshape(1, side * side, dim)


class Encoder(nn.Module):
    def __init__(self, side, patch, dim, depth, heads):
        super().__init__()
        self.embed = nn.Conv2d(3, dim, patch, patch)
        self.register_buffer("pos", grid_positions(dim, side // patch))
        self.blocks, self.norm = (
            nn.ModuleList(Block(dim, heads) for _ in range(depth)),
            nn.LayerNorm(dim),
        )

    def forward(self, x, keep=None):
        x = self.embed(x).flatten(2).transpose(1, 2) + self.pos
        if keep is not None:
            x = x[:, keep]
        for block in self.blocks:
            x = block(x)
        return self.norm(x)


class Predictor(nn.Module):
    def __init__(self, dim, inner, depth, heads, side):
        super().__init__()
        self.enter, self.leave = nn.Linear(dim, inner), nn.Linear(inner, dim)
        self.mask = nn.Parameter(torch.zeros(1, 1, inner))
        self.register_buffer("pos", grid_positions(inner, side))
        self.blocks, self.norm = (
            nn.ModuleList(Block(inner, heads) for _ in range(depth)),
            nn.LayerNorm(inner),
        )

    def forward(self, context, keep, targets):
        x = self.enter(context) + self.pos[:, keep]
        outs = []
        for target in targets:
            y = torch.cat([x, (self.mask + self.pos[:, target]).expand(len(x), -1, -1)], 1)
            for block in self.blocks:
                y = block(y)
            outs.append(self.leave(self.norm(y[:, x.shape[1] :])))
        return outs


def sample_masks(side, rng, n=4):
    def rect(low, high):
        area = rng.uniform(low, high) * side * side
        ratio = rng.uniform(0.75, 1.5)
        h, w = (max(1, min(side, round(math.sqrt(area * r)))) for r in (ratio, 1 / ratio))
        y, x = rng.randint(0, side - h), rng.randint(0, side - w)
        return {i * side + j for i in range(y, y + h) for j in range(x, x + w)}

    targets = [rect(0.15, 0.2) for _ in range(n)]
    context = rect(0.85, 1.0).difference(*targets)
    return sorted(context), [sorted(t) for t in targets]


def tiles(n, side, gen, device):
    land = torch.randint(0, 10, (n,), generator=gen, device=device)
    base = torch.randn(n, 3, 14, 14, generator=gen, device=device) + land.view(-1, 1, 1, 1) / 5
    return F.interpolate(base, size=side, mode="bilinear", align_corners=False), land


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--side", type=int, default=224)
    p.add_argument("--patch", type=int, default=16)
    p.add_argument("--dim", type=int, default=512)
    p.add_argument("--depth", type=int, default=10)
    p.add_argument("--batch", type=int, default=112)
    p.add_argument("--steps", type=int, default=40)
    a = p.parse_args()
    torch.manual_seed(9)
    rng = random.Random(9)
    device = "cuda" if torch.cuda.is_available() else "cpu"
    gen = torch.Generator(device=device).manual_seed(9)
    cells = a.side // a.patch
    encoder = Encoder(a.side, a.patch, a.dim, a.depth, a.dim // 64).to(device)
    target = copy.deepcopy(encoder).requires_grad_(False)
    predictor = Predictor(a.dim, a.dim // 2, 4, max(1, a.dim // 128), cells).to(device)
    matrices = [
        q
        for m in (encoder, predictor)
        for n, q in m.named_parameters()
        if q.ndim == 2 and "blocks" in n
    ]
    chosen = {id(q) for q in matrices}
    others = [q for m in (encoder, predictor) for q in m.parameters() if id(q) not in chosen]
    opts = [
        Muon(matrices, lr=0.01, weight_decay=0.05),
        torch.optim.AdamW(others, lr=5e-4, weight_decay=0.05),
    ]
    scheds = [torch.optim.lr_scheduler.CosineAnnealingLR(o, a.steps) for o in opts]

    for step in range(a.steps):
        x, _ = tiles(a.batch, a.side, gen, device)
        keep, blocks = sample_masks(cells, rng)
        keep = torch.tensor(keep, device=device)
        blocks = [torch.tensor(b, device=device) for b in blocks]
        with torch.autocast(device, torch.bfloat16):
            with torch.no_grad():
                truth = F.layer_norm(target(x).float(), (a.dim,))
            guesses = predictor(encoder(x, keep), keep, blocks)
            loss = sum(
                F.smooth_l1_loss(g.float(), truth[:, b]) for g, b in zip(guesses, blocks)
            ) / len(blocks)
        for o in opts:
            o.zero_grad(set_to_none=True)
        loss.backward()
        for o, s in zip(opts, scheds):
            o.step()
            s.step()
        decay = 0.996 + 0.004 * step / a.steps
        with torch.no_grad():
            for t, q in zip(target.parameters(), encoder.parameters()):
                t.mul_(decay).add_(q, alpha=1 - decay)
        if step % 10 == 0:
            print(f"step {step} loss {loss.item():.4f} context {len(keep)} tokens")

    probe = nn.Linear(a.dim, 10).to(device)
    opt = torch.optim.SGD(probe.parameters(), lr=0.1, momentum=0.9)
    for _ in range(8):
        x, y = tiles(2 * a.batch, a.side, gen, device)
        with torch.no_grad(), torch.autocast(device, torch.bfloat16):
            features = target(x).mean(1)
        logits = probe(features.float())
        loss = F.cross_entropy(logits, y)
        opt.zero_grad()
        loss.backward()
        opt.step()
    print("probe accuracy", (logits.argmax(1) == y).float().mean().item())


if __name__ == "__main__":
    main()
