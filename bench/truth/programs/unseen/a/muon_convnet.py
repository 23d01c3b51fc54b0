"""Speedrun style training of a small ConvNet: Muon for the filters, SGD for the rest, test-time flips."""

import argparse

import torch
import torch.nn.functional as F
from torch import nn


def zeropower(g, steps=5, eps=1e-7):
    """Newton-Schulz iteration in bf16 towards the nearest orthogonal matrix."""
    a, b, c = 3.4445, -4.7750, 2.0315
    x = g.bfloat16()
    x = x / (x.norm() + eps)
    tall = x.size(0) > x.size(1)
    if tall:
        x = x.T
    for _ in range(steps):
        s = x @ x.T
        x = a * x + (b * s + c * s @ s) @ x
    return x.T if tall else x


class Muon(torch.optim.Optimizer):
    def __init__(self, params, lr=0.02, momentum=0.6, nesterov=True):
        super().__init__(params, {"lr": lr, "momentum": momentum, "nesterov": nesterov})

    @torch.no_grad()
    def step(self, closure=None):
        for group in self.param_groups:
            for p in group["params"]:
                if p.grad is None:
                    continue
                state = self.state[p]
                if "momentum_buffer" not in state:
                    state["momentum_buffer"] = torch.zeros_like(p.grad)
                buf = state["momentum_buffer"]
                buf.mul_(group["momentum"]).add_(p.grad)
                g = p.grad.add(buf, alpha=group["momentum"]) if group["nesterov"] else buf
                p.mul_(len(p) ** 0.5 / p.norm())
                update = zeropower(g.reshape(len(g), -1)).view(g.shape)
                p.add_(update, alpha=-group["lr"])


class ConvGroup(nn.Module):
    def __init__(self, c_in, c_out):
        super().__init__()
        self.conv1 = nn.Conv2d(c_in, c_out, 3, padding="same", bias=False)
        self.norm1 = nn.BatchNorm2d(c_out, momentum=0.4)
        self.conv2 = nn.Conv2d(c_out, c_out, 3, padding="same", bias=False)
        self.norm2 = nn.BatchNorm2d(c_out, momentum=0.4)

    def forward(self, x):
        x = F.gelu(self.norm1(F.max_pool2d(self.conv1(x), 2)))
        return F.gelu(self.norm2(self.conv2(x)))


class Net(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.whiten = nn.Conv2d(3, 24, 2)
        self.groups = nn.Sequential(
            ConvGroup(24, width),
            ConvGroup(width, 4 * width),
            ConvGroup(4 * width, 4 * width),
            nn.MaxPool2d(3),
        )
        self.head = nn.Linear(4 * width, 10, bias=False)
        for module in self.modules():
            if isinstance(module, nn.BatchNorm2d):
                module.weight.requires_grad = False

    def forward(self, x):
        x = self.groups(F.gelu(self.whiten(x)))
        return self.head(x.flatten(1)) / x.size(-1)


class GpuLoader:
    """All pictures stay on the card as uint8; batches are cropped there."""

    def __init__(self, count, batch, device, train):
        self.images = torch.randint(0, 256, (count, 3, 32, 32), dtype=torch.uint8, device=device)
        self.labels = torch.randint(0, 10, (count,), device=device)
        self.batch, self.train = batch, train

    def __len__(self):
        return len(self.images) // self.batch

    def __iter__(self):
        order = torch.randperm(len(self.images), device=self.images.device)
        images = (self.images.half() if self.images.is_cuda else self.images.float()) / 255
        if self.train:
            images = F.pad(images, (2,) * 4, "reflect")
            dx, dy = torch.randint(0, 5, (2,)).tolist()
            images = images[:, :, dy : dy + 32, dx : dx + 32]
        images = images.to(memory_format=torch.channels_last)
        for i in range(len(self)):
            ix = order[i * self.batch : (i + 1) * self.batch]
            yield images[ix], self.labels[ix]


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--count", type=int, default=20_000)
    parser.add_argument("--batch-size", type=int, default=1000)
    parser.add_argument("--width", type=int, default=96)
    parser.add_argument("--epochs", type=int, default=3)
    args = parser.parse_args()
    torch.manual_seed(0)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    dtype = torch.half if device.type == "cuda" else torch.float
    model = Net(args.width).to(device, dtype=dtype).to(memory_format=torch.channels_last)
    for module in model.modules():
        if isinstance(module, nn.BatchNorm2d):
            module.float()
    train = GpuLoader(args.count, args.batch_size, device, True)
    test = GpuLoader(args.count // 5, args.batch_size * 2, device, False)
    filters = [
        p
        for p in model.parameters()
        if p.ndim == 4 and p.requires_grad and p is not model.whiten.weight
    ]
    others = [p for p in model.parameters() if p.requires_grad and all(p is not f for f in filters)]
    optimizers = [
        Muon(filters, lr=0.2),
        torch.optim.SGD(others, lr=0.5, momentum=0.85, nesterov=True, weight_decay=2e-6),
    ]
    total = args.epochs * len(train)
    step = 0
    for epoch in range(args.epochs):
        model.train()
        for images, labels in train:
            loss = F.cross_entropy(
                model(images).float(), labels, label_smoothing=0.2, reduction="sum"
            )
            model.zero_grad(set_to_none=True)
            (loss / len(labels)).backward()
            for opt in optimizers:
                for group in opt.param_groups:
                    group["lr"] = group.setdefault("initial_lr", group["lr"]) * (1 - step / total)
                opt.step()
            step += 1
        model.eval()
        with torch.no_grad():
            hits = [((model(x) + model(x.flip(-1))).argmax(1) == y).float().mean() for x, y in test]
        print(
            f"epoch {epoch}: loss {loss.item() / len(labels):.3f}, accuracy {torch.stack(hits).mean():.4f}"
        )


if __name__ == "__main__":
    main()
