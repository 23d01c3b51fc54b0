"""UNet++ with deep supervision for polyp masks (Dice + BCE, bf16)."""

import os

import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader, Dataset

SIZE, BIG = 256, 384
TRAIN, VAL = 210, 26
BATCH, VAL_BATCH = 16, 5
EPOCHS = 3
FILTERS = (32, 64, 128, 256, 512)
WORKERS = 2
DEVICE = "cuda"


class Polyps(Dataset):
    def __init__(self, n, size):
        self.n, self.size = n, size
        r = torch.arange(size).float()
        self.yy, self.xx = torch.meshgrid(r, r, indexing="ij")

    def __len__(self):
        return self.n

    def __getitem__(self, i):
        cy, cx = torch.rand(2) * self.size
        rad = (0.1 + 0.2 * torch.rand(())) * self.size
        mask = (((self.yy - cy) ** 2 + (self.xx - cx) ** 2) < rad**2).float()[None]
        image = 0.4 * mask + 0.3 * torch.rand(3, self.size, self.size)
        return image, mask


class Block(nn.Sequential):
    def __init__(self, cin, cout):
        super().__init__(
            nn.Conv2d(cin, cout, 3, padding=1, bias=False),
            nn.BatchNorm2d(cout),
            nn.ReLU(inplace=True),
            nn.Conv2d(cout, cout, 3, padding=1, bias=False),
            nn.BatchNorm2d(cout),
            nn.ReLU(inplace=True),
        )


class UNetPP(nn.Module):
    def __init__(self, f=FILTERS):
        super().__init__()
        self.depth = len(f)
        self.nodes = nn.ModuleDict()
        for i in range(self.depth):
            self.nodes[f"{i}_0"] = Block(3 if i == 0 else f[i - 1], f[i])
        for j in range(1, self.depth):
            for i in range(self.depth - j):
                self.nodes[f"{i}_{j}"] = Block(f[i] * j + f[i + 1], f[i])
        self.heads = nn.ModuleList(nn.Conv2d(f[0], 1, 1) for _ in range(self.depth - 1))

    def forward(self, x):
        out = {}
        for i in range(self.depth):
            out[i, 0] = self.nodes[f"{i}_0"](x if i == 0 else F.max_pool2d(out[i - 1, 0], 2))
            for j in range(1, i + 1):
                k = i - j
                up = F.interpolate(
                    out[k + 1, j - 1], scale_factor=2, mode="bilinear", align_corners=True
                )
                out[k, j] = self.nodes[f"{k}_{j}"](
                    torch.cat([out[k, m] for m in range(j)] + [up], 1)
                )
        return [h(out[0, j + 1]) for j, h in enumerate(self.heads)]


def dice_bce(logits, mask):
    logits = logits.float()
    p = logits.sigmoid()
    inter = (p * mask).sum((1, 2, 3))
    dice = 1 - (2 * inter + 1) / (p.sum((1, 2, 3)) + mask.sum((1, 2, 3)) + 1)
    return dice.mean() + F.binary_cross_entropy_with_logits(logits, mask)


@torch.no_grad()
def validate(model, loader):
    model.eval()
    scores = []
    for x, m in loader:
        x, m = x.to(DEVICE), m.to(DEVICE)
        with torch.autocast("cuda", dtype=torch.bfloat16):
            logits = model(x)[-1]
        p = (logits > 0).float()
        scores.append(
            2 * (p * m).sum((1, 2, 3)) / (p.sum((1, 2, 3)) + m.sum((1, 2, 3))).clamp(min=1)
        )
    return torch.cat(scores).mean().item()


def main():
    train = DataLoader(Polyps(TRAIN, SIZE), BATCH, shuffle=True, num_workers=WORKERS)
    val = DataLoader(Polyps(VAL, BIG), VAL_BATCH, num_workers=WORKERS)
    model = UNetPP().to(DEVICE)
    opt = torch.optim.AdamW(model.parameters(), lr=1e-3, weight_decay=1e-4)
    sched = torch.optim.lr_scheduler.OneCycleLR(opt, max_lr=2e-3, total_steps=EPOCHS * len(train))
    best = -1
    for epoch in range(EPOCHS):
        model.train()
        losses = []
        for x, m in train:
            x, m = x.to(DEVICE), m.to(DEVICE)
            opt.zero_grad()
            with torch.autocast("cuda", dtype=torch.bfloat16):
                outs = model(x)
            loss = sum(dice_bce(o, m) for o in outs) / len(outs)
            loss.backward()
            opt.step()
            sched.step()
            losses.append(loss.detach())
        dice = validate(model, val)
        print(f"epoch {epoch} loss {torch.stack(losses).mean():.4f} dice {dice:.4f}")
        if dice > best:
            best = dice
            torch.save(model.state_dict(), "unetpp_best.pt")
    print("saved", os.path.abspath("unetpp_best.pt"))


if __name__ == "__main__":
    main()
