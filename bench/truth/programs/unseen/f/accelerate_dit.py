"""Flow matching with a diffusion transformer under accelerate: EMA weights, guided samples decoded at the end."""

import copy
import math
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from accelerate import Accelerator
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


@dataclass
class Settings:
    width: int = 768
    depth: int = 12
    heads: int = 12
    side: int = 32
    channels: int = 4
    patch: int = 2
    classes: int = 1000
    batch: int = 96
    images: int = 2880
    epochs: int = 1
    lr: float = 1e-4
    ema: float = 0.999
    drop_label: float = 0.1
    samples: int = 96
    sample_steps: int = 20
    guidance: float = 4.0
    decoder_width: int = 128


def modulate(x, shift, scale):
    return x * (1 + scale[:, None]) + shift[:, None]


class DiTBlock(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.norm1 = nn.LayerNorm(width, elementwise_affine=False)
        self.norm2 = nn.LayerNorm(width, elementwise_affine=False)
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.mlp = nn.Sequential(
            nn.Linear(width, 4 * width), nn.GELU("tanh"), nn.Linear(4 * width, width)
        )
        self.ada = nn.Sequential(nn.SiLU(), nn.Linear(width, 6 * width))
        nn.init.zeros_(self.ada[1].weight)
        nn.init.zeros_(self.ada[1].bias)

    def forward(self, x, c):
        s1, c1, g1, s2, c2, g2 = self.ada(c).chunk(6, -1)
        b, n, d = x.shape
        q, k, v = (
            self.qkv(modulate(self.norm1(x), s1, c1))
            .view(b, n, 3, self.heads, -1)
            .permute(2, 0, 3, 1, 4)
        )
        y = F.scaled_dot_product_attention(q, k, v).transpose(1, 2).reshape(b, n, d)
        x = x + g1[:, None] * self.out(y)
        return x + g2[:, None] * self.mlp(modulate(self.norm2(x), s2, c2))


class DiT(nn.Module):
    def __init__(self, s):
        super().__init__()
        self.s = s
        self.embed = nn.Conv2d(s.channels, s.width, s.patch, s.patch)
        self.position = nn.Parameter(torch.randn(1, (s.side // s.patch) ** 2, s.width) * 0.02)
        self.time = nn.Sequential(nn.Linear(256, s.width), nn.SiLU(), nn.Linear(s.width, s.width))
        self.label = nn.Embedding(s.classes + 1, s.width)
        self.blocks = nn.ModuleList([DiTBlock(s.width, s.heads) for _ in range(s.depth)])
        self.norm = nn.LayerNorm(s.width)
        self.head = nn.Linear(s.width, s.patch**2 * s.channels)

    def forward(self, x, t, y):
        frequency = torch.exp(-math.log(10000) * torch.arange(128, device=x.device) / 128)
        angle = 1000 * t[:, None] * frequency
        c = self.time(torch.cat([angle.cos(), angle.sin()], -1)) + self.label(y)
        x = self.embed(x).flatten(2).transpose(1, 2) + self.position
        for block in self.blocks:
            x = block(x, c)
        x = self.head(self.norm(x)).transpose(1, 2)
        return F.fold(x, (self.s.side, self.s.side), self.s.patch, stride=self.s.patch)


def decoder(s):
    layers, width = [nn.Conv2d(s.channels, s.decoder_width, 3, padding=1)], s.decoder_width
    for _ in range(3):
        layers += [
            nn.GroupNorm(8, width),
            nn.SiLU(),
            nn.Upsample(scale_factor=2),
            nn.Conv2d(width, width, 3, 1, 1),
        ]
    return nn.Sequential(
        *layers, nn.GroupNorm(8, width), nn.SiLU(), nn.Conv2d(width, 3, 3, padding=1)
    )


@torch.no_grad()
def sample(model, s, device):
    x = torch.randn(s.samples, s.channels, s.side, s.side, device=device)
    y = torch.arange(s.samples, device=device) % s.classes
    both = torch.cat([y, torch.full_like(y, s.classes)])
    for i in range(s.sample_steps):
        t = torch.full((2 * s.samples,), i / s.sample_steps, device=device)
        cond, free = model(torch.cat([x, x]), t, both).float().chunk(2)
        x = x + (free + s.guidance * (cond - free)) / s.sample_steps
    return x


def main():
    s = Settings()
    accelerator = Accelerator(mixed_precision="bf16")
    torch.manual_seed(6)
    latents = torch.randn(s.images, s.channels, s.side, s.side)
    data = TensorDataset(latents, torch.randint(0, s.classes, (s.images,)))
    loader = DataLoader(data, s.batch, shuffle=True, drop_last=True, num_workers=2)
    model = DiT(s)
    optimizer = torch.optim.AdamW(model.parameters(), lr=s.lr, weight_decay=0.0)
    model, optimizer, loader = accelerator.prepare(model, optimizer, loader)
    ema = copy.deepcopy(accelerator.unwrap_model(model)).eval().requires_grad_(False)
    for epoch in range(s.epochs):
        for x, y in loader:
            t = torch.sigmoid(torch.randn(len(x), device=x.device))
            noise = torch.randn_like(x)
            mixed = t[:, None, None, None] * x + (1 - t[:, None, None, None]) * noise
            y = torch.where(torch.rand(len(y), device=y.device) < s.drop_label, s.classes, y)
            loss = F.mse_loss(model(mixed, t, y), x - noise)
            accelerator.backward(loss)
            accelerator.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            optimizer.zero_grad()
            with torch.no_grad():
                for e, p in zip(ema.parameters(), accelerator.unwrap_model(model).parameters()):
                    e.lerp_(p, 1 - s.ema)
        accelerator.print(f"epoch {epoch}: {loss.item():.4f}")
    accelerator.save(ema.state_dict(), "ema.pt")
    accelerator.free_memory()
    del model, optimizer
    with accelerator.autocast():
        latent = sample(ema, s, accelerator.device)
    decode = decoder(s).to(accelerator.device)
    with torch.no_grad():
        pictures = decode(latent).clamp(-1, 1)
    print(pictures.shape, pictures.std().item())


if __name__ == "__main__":
    main()
