"""Perceiver over long multichannel sensor recordings: shared cross-attention, latent self-attention, torch.compile'd step."""

import torch
import torch.nn.functional as F
from torch import nn

SEED = 31
CHANNELS = 48
SAMPLES = 6000
BANDS = 32
LATENTS = 256
WIDTH = 512
HEADS = 8
REPEATS = 3
SELF_PER_REPEAT = 4
FAULTS = 12
BATCH = 24
STEPS = 40


def fourier(n, bands):
    t = torch.linspace(-1, 1, n)[:, None]
    f = torch.logspace(0, 3, bands)[None] * torch.pi
    return torch.cat([torch.sin(t * f), torch.cos(t * f), t], dim=-1)


class Attend(nn.Module):
    def __init__(self, dim, kv_dim, heads):
        super().__init__()
        self.heads = heads
        self.nq, self.nkv = nn.LayerNorm(dim), nn.LayerNorm(kv_dim)
        self.q = nn.Linear(dim, dim, bias=False)
        self.kv = nn.Linear(kv_dim, 2 * dim, bias=False)
        self.o = nn.Linear(dim, dim)

    def split(self, x):
        return x.unflatten(-1, (self.heads, -1)).transpose(1, 2)

    def forward(self, x, context):
        k, v = self.kv(self.nkv(context)).chunk(2, dim=-1)
        q = self.q(self.nq(x))
        y = F.scaled_dot_product_attention(self.split(q), self.split(k), self.split(v))
        return self.o(y.transpose(1, 2).flatten(2))


class GeGLU(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.norm = nn.LayerNorm(dim)
        self.up, self.down = nn.Linear(dim, 8 * dim), nn.Linear(4 * dim, dim)

    def forward(self, x):
        a, b = self.up(self.norm(x)).chunk(2, dim=-1)
        return self.down(a * F.gelu(b))


class Perceiver(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("where", fourier(SAMPLES, BANDS))
        kv = CHANNELS + 2 * BANDS + 1
        self.latents = nn.Parameter(torch.randn(LATENTS, WIDTH) * 0.02)
        self.cross, self.cross_ff = Attend(WIDTH, kv, HEADS), GeGLU(WIDTH)
        self.selfs = nn.ModuleList(Attend(WIDTH, WIDTH, HEADS) for _ in range(SELF_PER_REPEAT))
        self.ffs = nn.ModuleList(GeGLU(WIDTH) for _ in range(SELF_PER_REPEAT))
        self.head = nn.Sequential(nn.LayerNorm(WIDTH), nn.Linear(WIDTH, FAULTS))

    def forward(self, signal):
        b = signal.shape[0]
        context = torch.cat([signal, self.where.expand(b, -1, -1)], dim=-1)
        x = self.latents.expand(b, -1, -1)
        for _ in range(REPEATS):
            x = x + self.cross(x, context)
            x = x + self.cross_ff(x)
            for attend, ff in zip(self.selfs, self.ffs):
                x = x + attend(x, x)
                x = x + ff(x)
        return self.head(x.mean(1))


def main():
    torch.manual_seed(SEED)
    torch.set_float32_matmul_precision("high")
    device = "cuda" if torch.cuda.is_available() else "cpu"
    model = Perceiver().to(device)
    optimizer = torch.optim.NAdam(model.parameters(), lr=2e-4)

    @torch.compile
    def forward_loss(signal, target):
        return F.binary_cross_entropy_with_logits(model(signal), target)

    running = None
    step = 0
    while step < STEPS:
        signal = torch.randn(BATCH, SAMPLES, CHANNELS, device=device).cumsum(1) * 0.05
        target = (torch.rand(BATCH, FAULTS, device=device) < 0.2).float()
        optimizer.zero_grad()
        loss = forward_loss(signal, target)
        loss.backward()
        norm = nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        value = loss.item()
        running = value if running is None else 0.9 * running + 0.1 * value
        step += 1
        if step % 10 == 0:
            print(f"step {step}/{STEPS}: loss {running:.4f}, gradient norm {float(norm):.3f}")


if __name__ == "__main__":
    main()
