"""A vision transformer for small images: patches by unfold, class token, dropped paths, mixed labels."""

import torch
from torch import nn


class Layer(nn.Module):
    def __init__(self, width, heads, drop):
        super().__init__()
        self.heads, self.drop = heads, drop
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv = nn.Linear(width, 3 * width)
        self.out = nn.Linear(width, width)
        self.mlp = nn.Sequential(
            nn.Linear(width, 4 * width), nn.GELU(), nn.Dropout(0.1), nn.Linear(4 * width, width)
        )

    def path(self, x):
        if not self.training:
            return x
        kept = torch.rand(len(x), 1, 1, device=x.device) > self.drop
        return x * kept / (1 - self.drop)

    def forward(self, x):
        b, n, d = x.shape
        q, k, v = self.qkv(self.norm1(x)).view(b, n, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        mixed = nn.functional.scaled_dot_product_attention(q, k, v)
        x = x + self.path(self.out(mixed.transpose(1, 2).reshape(b, n, d)))
        return x + self.path(self.mlp(self.norm2(x)))


class SmallViT(nn.Module):
    def __init__(self, image, patch, width, layers, heads, classes):
        super().__init__()
        self.patch = patch
        count = (image // patch) ** 2
        self.enter = nn.Linear(3 * patch * patch, width)
        self.token = nn.Parameter(torch.zeros(1, 1, width))
        self.places = nn.Parameter(torch.randn(1, count + 1, width) * 0.02)
        self.layers = nn.Sequential(*(Layer(width, heads, 0.2 * i / layers) for i in range(layers)))
        self.norm = nn.LayerNorm(width)
        self.head = nn.Linear(width, classes)

    def forward(self, x):
        x = nn.functional.unfold(x, self.patch, stride=self.patch).transpose(1, 2)
        x = self.enter(x)
        x = torch.cat([self.token.expand(len(x), -1, -1), x], dim=1) + self.places
        return self.head(self.norm(self.layers(x))[:, 0])


def workload(batch=96, image=64, patch=4, width=384, layers=9, heads=6, classes=200):
    images = torch.randn(batch, 3, image, image)
    labels = torch.randint(0, classes, (batch,))

    def loss(model, given):
        images, labels = given
        mixed = 0.7 * images + 0.3 * images.flip(0)
        scores = model(mixed)
        first = nn.functional.cross_entropy(scores, labels, label_smoothing=0.1)
        return 0.7 * first + 0.3 * nn.functional.cross_entropy(scores, labels.flip(0))

    return {
        "model": SmallViT(image, patch, width, layers, heads, classes),
        "batch": (images, labels),
        "loss": loss,
    }
