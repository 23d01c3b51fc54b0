"""Pre-activation ResNet trained with sharpness-aware minimization (two forward/backward passes a step)."""

import random

import numpy as np
import torch
import torch.nn.functional as F
from torch import nn

BATCH = 256
WIDTH = 64
STEPS = 14
EPOCH_SAMPLES = 4096
RHO = 0.05


class SAM(torch.optim.Optimizer):
    def __init__(self, params, base, rho=0.05, **kwargs):
        super().__init__(params, dict(rho=rho, **kwargs))
        self.base_optimizer = base(self.param_groups, **kwargs)
        self.param_groups = self.base_optimizer.param_groups

    @torch.no_grad()
    def first_step(self):
        norm = torch.norm(
            torch.stack(
                [
                    p.grad.norm()
                    for g in self.param_groups
                    for p in g["params"]
                    if p.grad is not None
                ]
            )
        )
        for group in self.param_groups:
            scale = group["rho"] / (norm + 1e-12)
            for p in group["params"]:
                if p.grad is None:
                    continue
                self.state[p]["old"] = p.data.clone()
                p.add_(p.grad * scale)
        self.zero_grad()

    @torch.no_grad()
    def second_step(self):
        for group in self.param_groups:
            for p in group["params"]:
                if p.grad is not None:
                    p.data = self.state[p]["old"]
        self.base_optimizer.step()
        self.zero_grad()


class PreAct(nn.Module):
    def __init__(self, cin, cout, stride):
        super().__init__()
        self.bn1, self.bn2 = nn.BatchNorm2d(cin), nn.BatchNorm2d(cout)
        self.conv1 = nn.Conv2d(cin, cout, 3, stride, 1, bias=False)
        self.conv2 = nn.Conv2d(cout, cout, 3, 1, 1, bias=False)
        self.short = (
            nn.Conv2d(cin, cout, 1, stride, bias=False) if stride > 1 or cin != cout else None
        )

    def forward(self, x):
        h = F.relu(self.bn1(x))
        s = x if self.short is None else self.short(h)
        return s + self.conv2(F.relu(self.bn2(self.conv1(h))))


def build(width, classes=100):
    layers, c = [nn.Conv2d(3, width, 3, 1, 1, bias=False)], width
    for i, n in enumerate((3, 4, 6, 3)):
        for j in range(n):
            layers.append(PreAct(c, width * 2**i, 2 if i and not j else 1))
            c = width * 2**i
    return nn.Sequential(
        *layers,
        nn.BatchNorm2d(c),
        nn.ReLU(),
        nn.AdaptiveAvgPool2d(1),
        nn.Flatten(),
        nn.Linear(c, classes),
    )


def freeze_bn_stats(model, on):
    for m in model.modules():
        if isinstance(m, nn.BatchNorm2d):
            m.momentum = 0.0 if on else 0.1


def main():
    random.seed(1)
    np.random.seed(1)
    torch.manual_seed(1)
    device = "cuda" if torch.cuda.is_available() else "cpu"
    model = build(WIDTH).to(device)
    optimizer = SAM(
        model.parameters(), torch.optim.SGD, rho=RHO, lr=0.1, momentum=0.9, weight_decay=5e-4
    )
    x_all = torch.randn(EPOCH_SAMPLES, 3, 64, 64)
    y_all = torch.randint(0, 100, (EPOCH_SAMPLES,))
    for step in range(STEPS):
        at = (step * BATCH) % EPOCH_SAMPLES
        x, y = x_all[at : at + BATCH].to(device), y_all[at : at + BATCH].to(device)
        freeze_bn_stats(model, False)
        loss = F.cross_entropy(model(x), y, label_smoothing=0.1)
        loss.backward()
        optimizer.first_step()
        freeze_bn_stats(model, True)
        second = F.cross_entropy(model(x), y, label_smoothing=0.1)
        second.backward()
        optimizer.second_step()
        if step % 4 == 0:
            print(f"step {step}: {loss.item():.4f} -> sharp {second.item():.4f}")


if __name__ == "__main__":
    main()
