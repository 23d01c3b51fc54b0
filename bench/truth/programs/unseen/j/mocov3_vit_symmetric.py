"""MoCo v3: torchvision ViT encoder with a momentum copy, symmetric InfoNCE without a queue."""

import argparse
import copy
import math
import random

import numpy as np
import torch
import torch.nn.functional as F
from torch import nn
from torchvision.models.vision_transformer import VisionTransformer


def mlp(dims):
    layers = []
    for i, (a, b) in enumerate(zip(dims[:-1], dims[1:])):
        layers.append(nn.Linear(a, b, bias=False))
        last = i == len(dims) - 2
        layers.append(nn.BatchNorm1d(b, affine=not last))
        if not last:
            layers.append(nn.ReLU(inplace=True))
    return nn.Sequential(*layers)


class MoCo(nn.Module):
    def __init__(self, args):
        super().__init__()
        vit = VisionTransformer(
            image_size=args.size,
            patch_size=16,
            num_layers=args.layers,
            num_heads=6,
            hidden_dim=384,
            mlp_dim=1536,
            num_classes=1000,
        )
        vit.heads = mlp([384, 4096, 4096, 256])
        vit.conv_proj.requires_grad_(False)  # frozen patch projection for stability
        self.base = vit
        self.momentum = copy.deepcopy(vit).requires_grad_(False)
        self.predictor = mlp([256, 4096, 256])

    @torch.no_grad()
    def update(self, m):
        for a, b in zip(self.base.parameters(), self.momentum.parameters()):
            b.data.mul_(m).add_(a.data, alpha=1 - m)

    def contrast(self, q, k, temperature=0.2):
        q, k = F.normalize(q, dim=1), F.normalize(k, dim=1)
        logits = q @ k.t() / temperature
        return F.cross_entropy(logits, torch.arange(len(q), device=q.device)) * 2 * temperature

    def forward(self, x1, x2, m):
        q1, q2 = self.predictor(self.base(x1)), self.predictor(self.base(x2))
        with torch.no_grad():
            self.update(m)
            k1, k2 = self.momentum(x1), self.momentum(x2)
        return self.contrast(q1, k2) + self.contrast(q2, k1)


def view(x):
    """cheap augmentation on the device"""
    if random.random() < 0.5:
        x = x.flip(-1)
    gain = torch.empty(len(x), 3, 1, 1, device=x.device).uniform_(0.6, 1.4)
    return (x * gain + 0.1 * torch.randn_like(x)).clamp(-3, 3)


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--batch", type=int, default=128)
    p.add_argument("--size", type=int, default=224)
    p.add_argument("--layers", type=int, default=12)
    p.add_argument("--steps", type=int, default=20)
    args = p.parse_args()
    random.seed(6)
    np.random.seed(6)
    torch.manual_seed(6)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")

    model = MoCo(args).to(device)
    optimizer = torch.optim.AdamW(
        [q for q in model.parameters() if q.requires_grad], lr=1.5e-4, weight_decay=0.1
    )
    scaler = torch.amp.GradScaler(device.type, enabled=device.type == "cuda")
    images = torch.randn(args.batch * 2, 3, args.size, args.size)
    for step in range(args.steps):
        m = 1 - 0.01 * (1 + math.cos(math.pi * step / args.steps)) / 2
        x = images[torch.randperm(len(images))[: args.batch]].to(device)
        with torch.autocast(device.type, dtype=torch.float16, enabled=device.type == "cuda"):
            loss = model(view(x), view(x), m)
        optimizer.zero_grad()
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
        if step % 5 == 0:
            print(f"{step}/{args.steps} loss {loss.item():.4f} m {m:.4f}")


if __name__ == "__main__":
    main()
