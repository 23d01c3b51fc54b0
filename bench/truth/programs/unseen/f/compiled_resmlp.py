"""ResMLP with torch.compile: drop path, a compiled loss, an uneven last batch, EMA scored beside the model."""

import argparse

import torch
import torch.nn.functional as F
from torch import nn
from torch.optim.swa_utils import AveragedModel, get_ema_multi_avg_fn
from torch.utils.data import DataLoader, TensorDataset


class Affine(nn.Module):
    def __init__(self, width, start=1.0):
        super().__init__()
        self.alpha, self.beta = (
            nn.Parameter(start * torch.ones(width)),
            nn.Parameter(torch.zeros(width)),
        )

    def forward(self, x):
        return self.alpha * x + self.beta


class Block(nn.Module):
    def __init__(self, width, patches, drop):
        super().__init__()
        self.pre, self.mix = Affine(width), nn.Linear(patches, patches)
        self.scale1, self.scale2 = Affine(width, 1e-1), Affine(width, 1e-1)
        self.post = Affine(width)
        self.mlp = nn.Sequential(
            nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width)
        )
        self.drop = drop

    def path(self, x):
        if not self.training or self.drop == 0:
            return x
        keep = 1 - self.drop
        return x * torch.empty(len(x), 1, 1, device=x.device, dtype=x.dtype).bernoulli_(keep).div_(
            keep
        )

    def forward(self, x):
        x = x + self.path(self.scale1(self.mix(self.pre(x).transpose(1, 2)).transpose(1, 2)))
        return x + self.path(self.scale2(self.mlp(self.post(x))))


class ResMLP(nn.Module):
    def __init__(self, args):
        super().__init__()
        patches = (args.size // args.patch) ** 2
        self.stem = nn.Conv2d(3, args.width, args.patch, args.patch)
        drops = torch.linspace(0, 0.1, args.depth).tolist()
        self.blocks = nn.Sequential(*[Block(args.width, patches, d) for d in drops])
        self.norm, self.head = Affine(args.width), nn.Linear(args.width, args.classes)

    def forward(self, x):
        x = self.blocks(self.stem(x).flatten(2).transpose(1, 2))
        return self.head(self.norm(x).mean(1))


def soft_loss(logits, target, smoothing=0.1):
    log = F.log_softmax(logits.float(), -1)
    return (1 - smoothing) * F.nll_loss(log, target) - smoothing * log.mean(-1).mean()


def accuracy(model, loader, device):
    model.eval()
    right = seen = 0
    with torch.no_grad(), torch.autocast(device.type, dtype=torch.bfloat16):
        for x, y in loader:
            right += (model(x.to(device).float() / 255).argmax(-1).cpu() == y).sum().item()
            seen += len(y)
    return right / seen


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--size", type=int, default=192)
    parser.add_argument("--patch", type=int, default=16)
    parser.add_argument("--width", type=int, default=512)
    parser.add_argument("--depth", type=int, default=12)
    parser.add_argument("--classes", type=int, default=100)
    parser.add_argument("--images", type=int, default=3000)
    parser.add_argument("--batch", type=int, default=256)
    parser.add_argument("--epochs", type=int, default=2)
    args = parser.parse_args()
    torch.manual_seed(3)
    device = torch.device("cuda")
    images = torch.randint(0, 256, (args.images, 3, args.size, args.size), dtype=torch.uint8)
    labels = torch.randint(0, args.classes, (args.images,))
    cut = args.images * 4 // 5
    train = DataLoader(
        TensorDataset(images[:cut], labels[:cut]), args.batch, shuffle=True, pin_memory=True
    )
    val = DataLoader(TensorDataset(images[cut:], labels[cut:]), 2 * args.batch)
    model = ResMLP(args).to(device)
    ema = AveragedModel(model, multi_avg_fn=get_ema_multi_avg_fn(0.99))
    compiled = torch.compile(model)
    criterion = torch.compile(soft_loss)
    optimizer = torch.optim.NAdam(
        model.parameters(), lr=1e-3, weight_decay=0.01, decoupled_weight_decay=True
    )
    for epoch in range(args.epochs):
        compiled.train()
        for x, y in train:
            x, y = x.to(device, non_blocking=True).float() / 255, y.to(device, non_blocking=True)
            with torch.autocast("cuda", dtype=torch.bfloat16):
                logits = compiled(x)
            loss = criterion(logits, y)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            ema.update_parameters(model)
        print(f"epoch {epoch}: {loss.item():.3f}, accuracy {accuracy(compiled, val, device):.3f}")
        print(f"  averaged: {accuracy(ema, val, device):.3f}")


if __name__ == "__main__":
    main()
