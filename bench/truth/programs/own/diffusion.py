"""A small diffusion model: U-Net with attention, an averaged copy, and sampling after each epoch."""

import argparse
import copy

import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader
from torchvision import datasets, transforms
from torchvision.utils import save_image

parser = argparse.ArgumentParser()
parser.add_argument("--batch", type=int, default=64)
parser.add_argument("--size", type=int, default=64)
parser.add_argument("--samples", type=int, default=256)
args = parser.parse_args()
device = "cuda"


class Block(nn.Module):
    def __init__(self, i, o):
        super().__init__()
        self.norm1, self.conv1 = nn.GroupNorm(8, i), nn.Conv2d(i, o, 3, padding=1)
        self.time = nn.Linear(256, o)
        self.norm2, self.conv2 = nn.GroupNorm(8, o), nn.Conv2d(o, o, 3, padding=1)
        self.skip = nn.Conv2d(i, o, 1) if i != o else nn.Identity()

    def forward(self, x, t):
        h = self.conv1(F.silu(self.norm1(x))) + self.time(t)[:, :, None, None]
        return self.conv2(F.silu(self.norm2(h))) + self.skip(x)


class Attention(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.norm, self.inner = nn.GroupNorm(8, c), nn.MultiheadAttention(c, 4, batch_first=True)

    def forward(self, x):
        h = self.norm(x).flatten(2).transpose(1, 2)
        return x + self.inner(h, h, h, need_weights=False)[0].transpose(1, 2).reshape(x.shape)


class Denoiser(nn.Module):
    def __init__(self):
        super().__init__()
        self.time = nn.Sequential(nn.Linear(64, 256), nn.SiLU(), nn.Linear(256, 256))
        self.first = nn.Conv2d(3, 64, 3, padding=1)
        self.down1, self.down2, self.down3 = Block(64, 64), Block(64, 128), Block(128, 256)
        self.middle = Attention(256)
        self.up2, self.up1 = Block(384, 128), Block(192, 64)
        self.last = nn.Conv2d(64, 3, 3, padding=1)

    def forward(self, x, t):
        angle = t.float()[:, None] * torch.exp(-torch.arange(32, device=x.device) / 4)
        t = self.time(torch.cat([angle.sin(), angle.cos()], 1))
        a = self.down1(self.first(x), t)
        b = self.down2(F.avg_pool2d(a, 2), t)
        c = self.middle(self.down3(F.avg_pool2d(b, 2), t))
        b = self.up2(torch.cat([F.interpolate(c, scale_factor=2), b], 1), t)
        a = self.up1(torch.cat([F.interpolate(b, scale_factor=2), a], 1), t)
        return self.last(a)


model = Denoiser().to(device)
average = copy.deepcopy(model).requires_grad_(False)
optimizer = torch.optim.AdamW(model.parameters(), 2e-4)
images = datasets.FakeData(500, (3, args.size, args.size), 10, transforms.ToTensor())
loader = DataLoader(images, args.batch, shuffle=True, num_workers=2)
level = torch.linspace(1, 0.01, 100, device=device)
for epoch in range(2):
    for x, _ in loader:
        x = x.to(device) * 2 - 1
        t = torch.randint(0, 100, (len(x),), device=device)
        noise = torch.randn_like(x)
        mixed = (
            level[t].sqrt()[:, None, None, None] * x
            + (1 - level[t]).sqrt()[:, None, None, None] * noise
        )
        with torch.autocast("cuda", torch.bfloat16):
            loss = F.mse_loss(model(mixed, t), noise)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        for kept, new in zip(average.parameters(), model.parameters()):
            kept.lerp_(new.detach(), 0.01)
    with torch.no_grad():
        x = torch.randn(args.samples, 3, args.size, args.size, device=device)
        for step in reversed(range(0, 100, 5)):
            t = torch.full((len(x),), step, device=device)
            x = x - 0.05 * average(x, t)
    save_image(x.clamp(-1, 1), f"samples-{epoch}.png", nrow=16)
    print(epoch, loss.item())
