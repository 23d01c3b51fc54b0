"""RCAN-style x2 super resolution for thermal frames; trains on patches, validates on whole frames."""

import math

import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader, Dataset

FEATS, GROUPS, BLOCKS = 64, 5, 8
PATCH, BATCH, FRAMES = 64, 32, 192
EPOCHS = 2
dev = torch.device("cuda" if torch.cuda.is_available() else "cpu")


class ThermalPatches(Dataset):
    def __init__(self, n):
        base = torch.rand(8, 1, 24, 32)
        self.frames = F.interpolate(base, size=(480, 640), mode="bicubic", align_corners=False)
        self.n = n

    def __len__(self):
        return self.n

    def __getitem__(self, i):
        f = self.frames[i % 8]
        y, x = (
            int(torch.randint(0, 480 - 2 * PATCH, ())),
            int(torch.randint(0, 640 - 2 * PATCH, ())),
        )
        hr = f[:, y : y + 2 * PATCH, x : x + 2 * PATCH]
        lr = F.avg_pool2d(hr[None], 2)[0]
        return lr + 0.01 * torch.randn_like(lr), hr


class ChannelAttention(nn.Module):
    def __init__(self, c, r=16):
        super().__init__()
        self.fc = nn.Sequential(
            nn.AdaptiveAvgPool2d(1),
            nn.Conv2d(c, c // r, 1),
            nn.ReLU(True),
            nn.Conv2d(c // r, c, 1),
            nn.Sigmoid(),
        )

    def forward(self, x):
        return x * self.fc(x)


class RCAB(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.body = nn.Sequential(
            nn.Conv2d(c, c, 3, 1, 1), nn.ReLU(True), nn.Conv2d(c, c, 3, 1, 1), ChannelAttention(c)
        )

    def forward(self, x):
        return x + self.body(x)


class Group(nn.Module):
    def __init__(self, c, n):
        super().__init__()
        self.body = nn.Sequential(*[RCAB(c) for _ in range(n)], nn.Conv2d(c, c, 3, 1, 1))

    def forward(self, x):
        return x + self.body(x)


class RCAN(nn.Module):
    def __init__(self):
        super().__init__()
        self.head = nn.Conv2d(1, FEATS, 3, 1, 1)
        self.body = nn.Sequential(
            *[Group(FEATS, BLOCKS) for _ in range(GROUPS)], nn.Conv2d(FEATS, FEATS, 3, 1, 1)
        )
        self.tail = nn.Sequential(
            nn.Conv2d(FEATS, 4 * FEATS, 3, 1, 1), nn.PixelShuffle(2), nn.Conv2d(FEATS, 1, 3, 1, 1)
        )

    def forward(self, x):
        h = self.head(x)
        return self.tail(h + self.body(h))


data = ThermalPatches(FRAMES)
loader = DataLoader(data, BATCH, shuffle=True, num_workers=2, drop_last=True)
net = RCAN().to(dev)
opt = torch.optim.Adam(net.parameters(), lr=1e-4, betas=(0.9, 0.99))
sched = torch.optim.lr_scheduler.MultiStepLR(opt, [1], 0.5)


def psnr(a, b):
    return -10 * math.log10(F.mse_loss(a.clamp(0, 1), b).item() + 1e-10)


for epoch in range(EPOCHS):
    net.train()
    for i, (lr, hr) in enumerate(loader):
        lr, hr = lr.to(dev), hr.to(dev)
        sr = net(lr)
        loss = F.l1_loss(sr, hr)
        opt.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(net.parameters(), 0.5)
        opt.step()
        if i % 3 == 0:
            print(f"epoch {epoch} it {i} l1 {loss.item():.4f}")
    sched.step()
    net.eval()
    with torch.no_grad():
        scores = []
        for f in data.frames[:4]:
            lr = F.avg_pool2d(f[None].to(dev), 2)
            # x8 self-ensemble reduced to the flips
            out = sum(net(lr.flip(d)).flip(d) for d in ([], [2], [3], [2, 3])) / 4
            scores.append(psnr(out.cpu(), f[None]))
    print(f"epoch {epoch} psnr {sum(scores) / len(scores):.2f}")
    torch.save({"net": net.state_dict(), "opt": opt.state_dict(), "epoch": epoch}, "rcan_latest.pt")
