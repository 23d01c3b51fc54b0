"""MLP-Mixer on crop images: small training batches, evaluation in one very large batch at the end."""

import argparse
import random

import numpy as np
import torch
import torch.nn.functional as F
from torch import nn


class MixerBlock(nn.Module):
    def __init__(self, tokens, dim, token_hidden, channel_hidden):
        super().__init__()
        self.n1, self.n2 = nn.LayerNorm(dim), nn.LayerNorm(dim)
        self.t1, self.t2 = nn.Linear(tokens, token_hidden), nn.Linear(token_hidden, tokens)
        self.c1, self.c2 = nn.Linear(dim, channel_hidden), nn.Linear(channel_hidden, dim)

    def forward(self, x):
        y = self.n1(x).transpose(1, 2)
        x = x + self.t2(F.gelu(self.t1(y))).transpose(1, 2)
        return x + self.c2(F.gelu(self.c1(self.n2(x))))


class Mixer(nn.Module):
    def __init__(self, size, patch, dim, depth, classes):
        super().__init__()
        tokens = (size // patch) ** 2
        self.stem = nn.Conv2d(3, dim, patch, patch)
        self.blocks = nn.Sequential(
            *[MixerBlock(tokens, dim, dim // 2, dim * 4) for _ in range(depth)]
        )
        self.norm = nn.LayerNorm(dim)
        self.head = nn.Linear(dim, classes)

    def forward(self, x):
        x = self.stem(x).flatten(2).transpose(1, 2)
        return self.head(self.norm(self.blocks(x)).mean(1))


def images(n, size):
    return torch.randint(0, 256, (n, 3, size, size), dtype=torch.uint8), torch.randint(0, 30, (n,))


def prepare(x, device):
    return x.to(device).float() / 127.5 - 1


def evaluate(model, x, y, batch, device):
    model.eval()
    hits, loss = 0, 0.0
    with torch.no_grad():
        for i in range(0, len(x), batch):
            out = model(prepare(x[i : i + batch], device))
            t = y[i : i + batch].to(device)
            loss += F.cross_entropy(out, t, reduction="sum").item()
            hits += (out.argmax(1) == t).sum().item()
    model.train()
    return loss / len(x), hits / len(x)


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--size", type=int, default=224)
    ap.add_argument("--dim", type=int, default=512)
    ap.add_argument("--depth", type=int, default=8)
    ap.add_argument("--batch", type=int, default=16)
    ap.add_argument("--eval-batch", type=int, default=2048)
    ap.add_argument("--train-images", type=int, default=320)
    ap.add_argument("--eval-images", type=int, default=4096)
    args = ap.parse_args()
    random.seed(17)
    np.random.seed(17)
    torch.manual_seed(17)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")

    x, y = images(args.train_images, args.size)
    vx, vy = images(args.eval_images, args.size)
    model = Mixer(args.size, 16, args.dim, args.depth, 30).to(device)
    opt = torch.optim.AdamW(model.parameters(), lr=5e-4, weight_decay=0.1)
    for step, idx in enumerate(torch.randperm(len(x)).split(args.batch)):
        loss = F.cross_entropy(model(prepare(x[idx], device)), y[idx].to(device))
        opt.zero_grad()
        loss.backward()
        opt.step()
        if step % 5 == 0:
            print("step", step, "loss", round(loss.item(), 4))
    vl, va = evaluate(model, vx, vy, args.eval_batch, device)
    print(f"eval loss {vl:.4f} accuracy {va:.4f}")


if __name__ == "__main__":
    main()
