"""A diffusion transformer: patches of a latent image, blocks that time and label scale and shift."""

import torch
from torch import nn


class Block(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.first = nn.LayerNorm(width, elementwise_affine=False)
        self.second = nn.LayerNorm(width, elementwise_affine=False)
        self.qkv = nn.Linear(width, 3 * width)
        self.out = nn.Linear(width, width)
        self.mlp = nn.Sequential(
            nn.Linear(width, 4 * width), nn.GELU(approximate="tanh"), nn.Linear(4 * width, width)
        )
        self.modulate = nn.Sequential(nn.SiLU(), nn.Linear(width, 6 * width))

    def forward(self, x, condition):
        shift, scale, gate, shift2, scale2, gate2 = (
            self.modulate(condition).unsqueeze(1).chunk(6, dim=-1)
        )
        q, k, v = (
            self.qkv(self.first(x) * (1 + scale) + shift)
            .unflatten(-1, (3, self.heads, -1))
            .permute(2, 0, 3, 1, 4)
        )
        seen = nn.functional.scaled_dot_product_attention(q, k, v)
        x = x + gate * self.out(seen.transpose(1, 2).flatten(2))
        return x + gate2 * self.mlp(self.second(x) * (1 + scale2) + shift2)


class Transformer(nn.Module):
    def __init__(self, image, width, heads, layers):
        super().__init__()
        self.patches = nn.Conv2d(4, width, 2, stride=2)
        self.places = nn.Parameter(torch.zeros(1, (image // 2) ** 2, width))
        self.time = nn.Sequential(nn.Linear(256, width), nn.SiLU(), nn.Linear(width, width))
        self.labels = nn.Embedding(1001, width)
        self.blocks = nn.ModuleList(Block(width, heads) for _ in range(layers))
        self.head = nn.Linear(width, 16)

    def forward(self, given):
        image, time, label = given
        x = self.patches(image).flatten(2).transpose(1, 2) + self.places
        condition = self.time(time) + self.labels(label)
        for block in self.blocks:
            x = block(x, condition)
        side = image.shape[-1] // 2
        made = self.head(x).view(-1, side, side, 2, 2, 4)
        return made.permute(0, 5, 1, 3, 2, 4).reshape(image.shape)


def workload(batch=14, image=32, width=704, heads=11, layers=9):
    given = (
        torch.randn(batch, 4, image, image),
        torch.randn(batch, 256),
        torch.randint(0, 1001, (batch,)),
    )
    noise = torch.randn(batch, 4, image, image)
    return {
        "model": Transformer(image, width, heads, layers),
        "batch": (given, noise),
        "loss": lambda model, given: nn.functional.mse_loss(model(given[0]), given[1]),
    }
