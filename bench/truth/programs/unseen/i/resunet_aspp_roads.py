"""Road extraction from aerial tiles: residual U-Net with ASPP bridge, fp16, BCE + dice, sliding-window eval."""

import argparse

import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader, Dataset


class ResBlock(nn.Module):
    def __init__(self, cin, cout, stride=1):
        super().__init__()
        self.body = nn.Sequential(
            nn.BatchNorm2d(cin),
            nn.ReLU(),
            nn.Conv2d(cin, cout, 3, stride, 1, bias=False),
            nn.BatchNorm2d(cout),
            nn.ReLU(),
            nn.Conv2d(cout, cout, 3, 1, 1, bias=False),
        )
        self.skip = nn.Sequential(nn.Conv2d(cin, cout, 1, stride, bias=False), nn.BatchNorm2d(cout))

    def forward(self, x):
        return self.body(x) + self.skip(x)


class ASPP(nn.Module):
    def __init__(self, c, out, rates=(1, 6, 12, 18)):
        super().__init__()
        self.branches = nn.ModuleList(
            nn.Sequential(
                nn.Conv2d(c, out, 3, padding=r, dilation=r),
                nn.BatchNorm2d(out),
                nn.ReLU(inplace=True),
            )
            for r in rates
        )
        self.merge = nn.Conv2d(out * len(rates), out, 1)

    def forward(self, x):
        return self.merge(torch.cat([b(x) for b in self.branches], 1))


class ResUNet(nn.Module):
    def __init__(self, base=48):
        super().__init__()
        c = [base, base * 2, base * 4, base * 8]
        self.stem = nn.Sequential(nn.Conv2d(3, c[0], 3, padding=1), ResBlock(c[0], c[0]))
        self.down = nn.ModuleList(ResBlock(c[i], c[i + 1], 2) for i in range(3))
        self.bridge = ASPP(c[3], c[3])
        self.up = nn.ModuleList(nn.ConvTranspose2d(c[i + 1], c[i], 2, 2) for i in (2, 1, 0))
        self.dec = nn.ModuleList(ResBlock(2 * c[i], c[i]) for i in (2, 1, 0))
        self.head = nn.Conv2d(c[0], 1, 1)

    def forward(self, x):
        skips = [self.stem(x)]
        for d in self.down:
            skips.append(d(skips[-1]))
        h = self.bridge(skips.pop())
        for up, dec in zip(self.up, self.dec):
            h = dec(torch.cat([up(h), skips.pop()], 1))
        return self.head(h)


class Tiles(Dataset):
    def __init__(self, n, size):
        self.big = torch.rand(3, 1500, 1500)
        self.mask = (F.avg_pool2d(torch.rand(1, 1, 1500, 1500), 9, 1, 4)[0] > 0.5).float()
        self.n, self.size = n, size

    def __len__(self):
        return self.n

    def __getitem__(self, i):
        y, x = torch.randint(0, 1500 - self.size, (2,)).tolist()
        s = (slice(None), slice(y, y + self.size), slice(x, x + self.size))
        return self.big[s], self.mask[s]


def dice_loss(logit, target):
    p = logit.sigmoid().flatten(1)
    t = target.flatten(1)
    return (1 - (2 * (p * t).sum(1) + 1) / (p.sum(1) + t.sum(1) + 1)).mean()


@torch.no_grad()
def sliding(model, image, window, stride, device, dtype):
    _, H, W = image.shape
    out = torch.zeros(1, H, W, device=device)
    count = torch.zeros(1, H, W, device=device)
    for y in range(0, H - window + 1, stride):
        for x in range(0, W - window + 1, stride):
            crop = image[None, :, y : y + window, x : x + window].to(device)
            with torch.autocast(device, dtype=dtype):
                p = model(crop).sigmoid()
            out[:, y : y + window, x : x + window] += p[0].float()
            count[:, y : y + window, x : x + window] += 1
    return out / count.clamp(min=1)


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--batch", type=int, default=12)
    ap.add_argument("--size", type=int, default=384)
    ap.add_argument("--tiles", type=int, default=84)
    ap.add_argument("--epochs", type=int, default=2)
    args = ap.parse_args()
    torch.manual_seed(11)
    device = "cuda" if torch.cuda.is_available() else "cpu"
    dtype = torch.float16 if device == "cuda" else torch.bfloat16
    data = Tiles(args.tiles, args.size)
    loader = DataLoader(data, args.batch, num_workers=2, drop_last=True)
    model = ResUNet().to(device)
    opt = torch.optim.Adam(model.parameters(), lr=3e-4)
    sched = torch.optim.lr_scheduler.ReduceLROnPlateau(opt, mode="max", patience=1)
    scaler = torch.amp.GradScaler(enabled=device == "cuda")
    for epoch in range(args.epochs):
        model.train()
        losses = []
        for x, y in loader:
            x, y = x.to(device), y.to(device)
            with torch.autocast(device, dtype=dtype):
                logit = model(x)
            loss = F.binary_cross_entropy_with_logits(logit.float(), y) + dice_loss(
                logit.float(), y
            )
            opt.zero_grad()
            scaler.scale(loss).backward()
            scaler.step(opt)
            scaler.update()
            losses.append(loss.detach())
        model.eval()
        big, mask = data.big[:, :1024, :1024], data.mask[:, :1024, :1024]
        prob = sliding(model, big, 512, 256, device, dtype).cpu()
        inter = ((prob > 0.5) & (mask > 0.5)).sum()
        iou = inter / ((prob > 0.5) | (mask > 0.5)).sum()
        sched.step(iou)
        print(f"epoch {epoch} loss {torch.stack(losses).mean().item():.3f} iou {iou.item():.3f}")
    torch.save(model.state_dict(), "roads.pt")


if __name__ == "__main__":
    main()
