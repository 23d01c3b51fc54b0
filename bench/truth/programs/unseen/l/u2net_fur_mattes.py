"""U2-Net (nested U blocks, seven side outputs) to cut out animals with fur: fp16 GradScaler, DataLoader workers, MAE and F-measure, keeps the best file."""

import os
import tempfile

import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader, Dataset

SIZE = 320
BATCH = 14
EPOCHS = 2
TRAIN, VAL = 14 * 14, 32
WORKERS = 4


class Animals(Dataset):
    def __init__(self, n, seed):
        self.n, self.seed = n, seed
        axis = torch.linspace(-1, 1, SIZE)
        self.y, self.x = torch.meshgrid(axis, axis, indexing="ij")

    def __len__(self):
        return self.n

    def __getitem__(self, i):
        g = torch.Generator().manual_seed(self.seed * 4_099 + i)
        cx, cy, r = (
            torch.rand(3, generator=g) * torch.tensor([1.0, 1.0, 0.4])
            + torch.tensor([-0.5, -0.5, 0.2])
        ).tolist()
        distance = ((self.x - cx) ** 2 + (self.y - cy) ** 2).sqrt() + 0.05 * torch.rand(
            SIZE, SIZE, generator=g
        )
        matte = (distance < r).float()[None]
        image = torch.rand(3, SIZE, SIZE, generator=g) * 0.5 + 0.5 * matte
        return image, matte


class Cell(nn.Sequential):
    def __init__(self, cin, cout, dilation=1):
        super().__init__(
            nn.Conv2d(cin, cout, 3, padding=dilation, dilation=dilation),
            nn.BatchNorm2d(cout),
            nn.ReLU(inplace=True),
        )


def like(x, ref):
    return F.interpolate(x, size=ref.shape[-2:], mode="bilinear", align_corners=False)


class RSU(nn.Module):
    """Residual U block; `flat` uses dilation in place of pooling."""

    def __init__(self, height, cin, mid, cout, flat=False):
        super().__init__()
        self.flat = flat
        self.enter = Cell(cin, cout)
        self.down = nn.ModuleList(
            [Cell(cout, mid)] + [Cell(mid, mid, 2**i if flat else 1) for i in range(1, height - 1)]
        )
        self.bottom = Cell(mid, mid, 2 ** (height - 1) if flat else 2)
        ups = [Cell(2 * mid, mid, 2**i if flat else 1) for i in range(height - 2, 0, -1)]
        self.up = nn.ModuleList(ups + [Cell(2 * mid, cout)])

    def forward(self, x):
        x = skip = self.enter(x)
        kept = []
        for i, cell in enumerate(self.down):
            if i and not self.flat:
                x = F.max_pool2d(x, 2, ceil_mode=True)
            x = cell(x)
            kept.append(x)
        x = self.bottom(x)
        for cell in self.up:
            ref = kept.pop()
            x = cell(torch.cat([like(x, ref), ref], 1))
        return x + skip


class U2Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.enc = nn.ModuleList(
            [
                RSU(7, 3, 32, 64),
                RSU(6, 64, 32, 128),
                RSU(5, 128, 64, 256),
                RSU(4, 256, 128, 512),
                RSU(4, 512, 256, 512, True),
                RSU(4, 512, 256, 512, True),
            ]
        )
        self.dec = nn.ModuleList(
            [
                RSU(4, 1024, 256, 512, True),
                RSU(4, 1024, 128, 256),
                RSU(5, 512, 64, 128),
                RSU(6, 256, 32, 64),
                RSU(7, 128, 16, 64),
            ]
        )
        self.side = nn.ModuleList(
            nn.Conv2d(c, 1, 3, padding=1) for c in (512, 512, 256, 128, 64, 64)
        )
        self.fuse = nn.Conv2d(6, 1, 1)

    def forward(self, image):
        x, kept = image, []
        for i, block in enumerate(self.enc):
            if i:
                x = F.max_pool2d(x, 2, ceil_mode=True)
            x = block(x)
            kept.append(x)
        outs = [self.side[0](x)]
        kept.pop()
        for block, side in zip(self.dec, self.side[1:]):
            ref = kept.pop()
            x = block(torch.cat([like(x, ref), ref], 1))
            outs.append(side(x))
        outs = [like(o, image) for o in outs]
        return [self.fuse(torch.cat(outs, 1))] + outs


def evaluate(net, loader, device):
    net.eval()
    mae, f, n = 0.0, 0.0, 0
    with torch.no_grad():
        for image, matte in loader:
            image, matte = image.to(device), matte.to(device)
            with torch.autocast(device, enabled=device == "cuda", dtype=torch.float16):
                guess = net(image)[0].sigmoid()
            mae += (guess - matte).abs().mean((1, 2, 3)).sum().item()
            hard = (guess > 0.5).float()
            tp = (hard * matte).sum((1, 2, 3))
            precision, recall = (
                tp / hard.sum((1, 2, 3)).clamp(min=1),
                tp / matte.sum((1, 2, 3)).clamp(min=1),
            )
            f += (
                (1.3 * precision * recall / (0.3 * precision + recall).clamp(min=1e-6)).sum().item()
            )
            n += len(image)
    net.train()
    return mae / n, f / n


def main():
    torch.manual_seed(29)
    torch.backends.cudnn.benchmark = True
    device = "cuda" if torch.cuda.is_available() else "cpu"
    train = DataLoader(
        Animals(TRAIN, 1), BATCH, shuffle=True, num_workers=WORKERS, pin_memory=True, drop_last=True
    )
    val = DataLoader(Animals(VAL, 2), BATCH // 2, num_workers=WORKERS)
    net = U2Net().to(device)
    opt = torch.optim.Adam(net.parameters(), lr=1e-3, eps=1e-8)
    scaler = torch.amp.GradScaler(device, enabled=device == "cuda")
    best = float("inf")
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "u2net_best.pth")
        for epoch in range(EPOCHS):
            for i, (image, matte) in enumerate(train):
                image, matte = (
                    image.to(device, non_blocking=True),
                    matte.to(device, non_blocking=True),
                )
                with torch.autocast(device, enabled=device == "cuda", dtype=torch.float16):
                    outs = net(image)
                    loss = sum(F.binary_cross_entropy_with_logits(o, matte) for o in outs)
                opt.zero_grad()
                scaler.scale(loss).backward()
                scaler.step(opt)
                scaler.update()
                if i % 7 == 0:
                    print(f"epoch {epoch} batch {i} loss {loss.item():.3f}")
            mae, f = evaluate(net, val, device)
            print(f"epoch {epoch} MAE {mae:.4f} F {f:.4f}")
            if mae < best:
                best = mae
                torch.save(net.state_dict(), path)
        net.load_state_dict(torch.load(path, map_location=device))
        print("reloaded", evaluate(net, val, device))


if __name__ == "__main__":
    main()
