"""3D U-Net on patches of made-up scans: Dice loss, bf16, then whole volumes by overlapping windows."""

import argparse

import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader, Dataset


class Volumes(Dataset):
    def __init__(self, scans, size, patch, per_scan=8):
        g = torch.Generator().manual_seed(14)
        self.scans = torch.randn(scans, 1, size, size, size, generator=g)
        self.masks = (F.avg_pool3d(self.scans, 5, 1, 2) > 0.1).long()[:, 0]
        self.patch, self.per_scan, self.size = patch, per_scan, size

    def __len__(self):
        return len(self.scans) * self.per_scan

    def __getitem__(self, index):
        scan = index // self.per_scan
        z, y, x = torch.randint(0, self.size - self.patch + 1, (3,)).tolist()
        where = (slice(z, z + self.patch), slice(y, y + self.patch), slice(x, x + self.patch))
        return self.scans[(scan, slice(None), *where)], self.masks[(scan, *where)]


def conv(a, b):
    return nn.Sequential(
        nn.Conv3d(a, b, 3, padding=1, bias=False),
        nn.InstanceNorm3d(b, affine=True),
        nn.LeakyReLU(0.01, inplace=True),
        nn.Conv3d(b, b, 3, padding=1, bias=False),
        nn.InstanceNorm3d(b, affine=True),
        nn.LeakyReLU(0.01, inplace=True),
    )


class UNet3D(nn.Module):
    def __init__(self, base, depth, classes=2):
        super().__init__()
        widths = [base * 2**i for i in range(depth)]
        self.enter = conv(1, widths[0])
        self.down = nn.ModuleList(conv(a, b) for a, b in zip(widths, widths[1:], strict=False))
        self.lift = nn.ModuleList(
            nn.ConvTranspose3d(b, a, 2, 2) for a, b in zip(widths, widths[1:], strict=False)
        )
        self.merge = nn.ModuleList(conv(2 * a, a) for a in widths[:-1])
        self.out = nn.Conv3d(base, classes, 1)

    def forward(self, x):
        skips = [self.enter(x)]
        for block in self.down:
            skips.append(block(F.max_pool3d(skips[-1], 2)))
        x = skips.pop()
        for lift, merge in zip(reversed(self.lift), reversed(self.merge), strict=True):
            x = merge(torch.cat([lift(x), skips.pop()], 1))
        return self.out(x)


def dice_loss(logits, target, eps=1.0):
    probabilities = logits.float().softmax(1)
    truth = F.one_hot(target, logits.size(1)).movedim(-1, 1).float()
    overlap = (probabilities * truth).sum((2, 3, 4))
    both = probabilities.sum((2, 3, 4)) + truth.sum((2, 3, 4))
    return 1 - ((2 * overlap + eps) / (both + eps)).mean()


@torch.no_grad()
def sliding_window(model, volume, patch, stride, device):
    """The mean of all windows that cover a voxel; the sums stay on the card."""
    _, size, _, _ = volume.shape
    total = torch.zeros(2, size, size, size, device=device)
    count = torch.zeros(size, size, size, device=device)
    volume = volume.to(device)
    starts = sorted({*range(0, size - patch + 1, stride), size - patch})
    for z in starts:
        for y in starts:
            windows = torch.stack(
                [volume[:, z : z + patch, y : y + patch, x : x + patch] for x in starts]
            )
            logits = model(windows)
            for x, out in zip(starts, logits, strict=True):
                total[:, z : z + patch, y : y + patch, x : x + patch] += out
                count[z : z + patch, y : y + patch, x : x + patch] += 1
    return (total / count).argmax(0)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--scans", type=int, default=6)
    parser.add_argument("--size", type=int, default=160)
    parser.add_argument("--patch", type=int, default=96)
    parser.add_argument("--stride", type=int, default=48)
    parser.add_argument("--base", type=int, default=24)
    parser.add_argument("--depth", type=int, default=4)
    parser.add_argument("--batch", type=int, default=2)
    parser.add_argument("--epochs", type=int, default=1)
    args = parser.parse_args()
    torch.manual_seed(14)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    data = Volumes(args.scans, args.size, args.patch)
    loader = DataLoader(data, args.batch, shuffle=True, num_workers=2, pin_memory=True)
    model = UNet3D(args.base, args.depth).to(device)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.99, nesterov=True)
    for epoch in range(args.epochs):
        model.train()
        for i, (x, y) in enumerate(loader):
            x, y = x.to(device), y.to(device)
            with torch.autocast(device.type, dtype=torch.bfloat16):
                logits = model(x)
                loss = dice_loss(logits, y) + F.cross_entropy(logits, y)
            optimizer.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(model.parameters(), 12)
            optimizer.step()
            if i % 6 == 0:
                print(f"{epoch}/{i}: {loss.item():.4f}")
        model.eval()
        guess = sliding_window(model, data.scans[0], args.patch, args.stride, device).cpu()
        print(f"epoch {epoch}: {(guess == data.masks[0]).float().mean():.3f} of all voxels right")


if __name__ == "__main__":
    main()
