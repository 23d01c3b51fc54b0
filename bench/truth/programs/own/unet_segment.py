import argparse

import torch
import torch.nn.functional as F
from torch import nn

p = argparse.ArgumentParser()
p.add_argument("--batch", type=int, default=8)
p.add_argument("--size", type=int, default=384)
p.add_argument("--amp", action="store_true")
a = p.parse_args()
device = "cuda" if torch.cuda.is_available() else "cpu"


def block(i, o):
    return nn.Sequential(
        nn.Conv2d(i, o, 3, padding=1),
        nn.BatchNorm2d(o),
        nn.ReLU(inplace=True),
        nn.Conv2d(o, o, 3, padding=1),
        nn.BatchNorm2d(o),
        nn.ReLU(inplace=True),
    )


class UNet(nn.Module):
    def __init__(self, c=(64, 128, 256, 512)):
        super().__init__()
        self.down = nn.ModuleList(block(i, o) for i, o in zip((3, *c[:-1]), c))
        self.mid = block(c[-1], c[-1] * 2)
        self.up = nn.ModuleList(nn.ConvTranspose2d(2 * o, o, 2, 2) for o in reversed(c))
        self.dec = nn.ModuleList(block(2 * o, o) for o in reversed(c))
        self.head = nn.Conv2d(c[0], 21, 1)

    def forward(self, x):
        skips = []
        for d in self.down:
            x = d(x)
            skips.append(x)
            x = F.max_pool2d(x, 2)
        x = self.mid(x)
        for u, d, s in zip(self.up, self.dec, reversed(skips)):
            x = d(torch.cat([u(x), s], 1))
        return self.head(x)


model = UNet().to(device)
opt = torch.optim.Adam(model.parameters(), 1e-3)
scaler = torch.amp.GradScaler(device, enabled=a.amp)
best = 1e9
for step in range(6):
    x = torch.randn(a.batch, 3, a.size, a.size).to(device, non_blocking=True)
    y = torch.randint(0, 21, (a.batch, a.size, a.size)).to(device)
    with torch.autocast(device, torch.float16, enabled=a.amp):
        loss = F.cross_entropy(model(x), y)
    opt.zero_grad()
    scaler.scale(loss).backward()
    scaler.unscale_(opt)
    nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    scaler.step(opt)
    scaler.update()
    if loss.item() < best:
        best = loss.item()
        torch.save(model.state_dict(), "unet.pt")
    print(step, loss.item())
