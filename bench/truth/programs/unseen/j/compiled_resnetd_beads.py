"""Bead counting as classification: a ResNet-D style net under torch.compile with bf16."""

import random
import time

import numpy as np
import torch
import torch.nn.functional as F
from torch import nn

BATCH = 128
SIZE = 192
STEPS = 25
CLASSES = 64

random.seed(10)
np.random.seed(10)
torch.manual_seed(10)
torch.set_float32_matmul_precision("high")
device = torch.device("cuda" if torch.cuda.is_available() else "cpu")


def cba(cin, cout, k=3, s=1, act=True):
    layers = [nn.Conv2d(cin, cout, k, s, k // 2, bias=False), nn.BatchNorm2d(cout)]
    return nn.Sequential(*layers, nn.SiLU()) if act else nn.Sequential(*layers)


class Basic(nn.Module):
    def __init__(self, cin, cout, stride):
        super().__init__()
        self.a = cba(cin, cout, 3, stride)
        self.b = cba(cout, cout, 3, 1, act=False)
        self.skip = nn.Identity()
        if stride == 2:
            self.skip = nn.Sequential(nn.AvgPool2d(2), cba(cin, cout, 1, 1, act=False))
        elif cin != cout:
            self.skip = cba(cin, cout, 1, 1, act=False)

    def forward(self, x):
        return F.silu(self.b(self.a(x)) + self.skip(x))


class ResNetD(nn.Module):
    def __init__(self):
        super().__init__()
        self.stem = nn.Sequential(cba(3, 32, 3, 2), cba(32, 32), cba(32, 64))
        stages, c = [], 64
        for width, n, s in ((96, 2, 1), (192, 2, 2), (384, 3, 2), (512, 2, 2)):
            for i in range(n):
                stages.append(Basic(c, width, s if i == 0 else 1))
                c = width
        self.stages = nn.Sequential(*stages)
        self.fc = nn.Linear(c, CLASSES)

    def forward(self, x):
        x = self.stages(self.stem(x))
        return self.fc(F.adaptive_avg_pool2d(x, 1).flatten(1))


model = ResNetD().to(device)
compiled = torch.compile(model)
opt = torch.optim.AdamW(model.parameters(), lr=1e-3, weight_decay=0.02)


def batch():
    y = torch.randint(0, CLASSES, (BATCH,), device=device)
    x = torch.rand(BATCH, 3, SIZE, SIZE, device=device)
    return x + y.view(-1, 1, 1, 1) / CLASSES, y


t0 = time.time()
for step in range(STEPS):
    x, y = batch()
    with torch.autocast(device.type, dtype=torch.bfloat16):
        loss = F.cross_entropy(compiled(x), y)
    opt.zero_grad(set_to_none=True)
    loss.backward()
    opt.step()
    if step == 0 or (step + 1) % 8 == 0:
        print(f"step {step + 1} loss {loss.item():.4f} at {time.time() - t0:.1f}s")
