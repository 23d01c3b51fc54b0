"""HRNet (four parallel resolutions) that finds the joints of climbers as heat maps.

channels_last, bf16, the whole network compiled, DataLoader with workers, PCK after each epoch, best weights kept on the host.
"""

import argparse
import os
import tempfile

import numpy as np
import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader, Dataset

JOINTS = 17


class Climbers(Dataset):
    def __init__(self, n, height, width, seed):
        self.n, self.h, self.w, self.seed = n, height, width, seed

    def __len__(self):
        return self.n

    def __getitem__(self, i):
        rng = np.random.default_rng(self.seed * 100_003 + i)
        image = rng.integers(0, 255, (3, self.h, self.w), dtype=np.uint8)
        joints = rng.random((JOINTS, 2), dtype=np.float32) * [self.w // 4 - 1, self.h // 4 - 1]
        visible = (rng.random(JOINTS) > 0.15).astype(np.float32)
        return (
            torch.from_numpy(image),
            torch.from_numpy(joints.astype(np.float32)),
            torch.from_numpy(visible),
        )


def heatmaps(joints, h, w, sigma=2.0):
    ys = torch.arange(h, device=joints.device).view(1, 1, h, 1)
    xs = torch.arange(w, device=joints.device).view(1, 1, 1, w)
    x, y = joints[..., 0, None, None], joints[..., 1, None, None]
    return torch.exp(-((xs - x) ** 2 + (ys - y) ** 2) / (2 * sigma**2))


def conv_bn(cin, cout, k=3, s=1, relu=True):
    mods = [nn.Conv2d(cin, cout, k, s, k // 2, bias=False), nn.BatchNorm2d(cout)]
    return nn.Sequential(*mods, nn.ReLU(inplace=True)) if relu else nn.Sequential(*mods)


class Basic(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.a, self.b = conv_bn(c, c), conv_bn(c, c, relu=False)

    def forward(self, x):
        return F.relu(self.b(self.a(x)) + x)


class Exchange(nn.Module):
    """One HR module: two basic blocks per branch, then everyone talks to everyone."""

    def __init__(self, widths):
        super().__init__()
        self.branches = nn.ModuleList(nn.Sequential(*[Basic(c) for _ in range(2)]) for c in widths)
        self.fuse = nn.ModuleList()
        for i, ci in enumerate(widths):
            row = nn.ModuleList()
            for j, cj in enumerate(widths):
                if i == j:
                    row.append(nn.Identity())
                elif j > i:
                    row.append(
                        nn.Sequential(
                            conv_bn(cj, ci, 1, relu=False), nn.Upsample(scale_factor=2 ** (j - i))
                        )
                    )
                else:
                    steps = [conv_bn(cj, cj, 3, 2) for _ in range(i - j - 1)]
                    row.append(nn.Sequential(*steps, conv_bn(cj, ci, 3, 2, relu=False)))
            self.fuse.append(row)

    def forward(self, xs):
        xs = [b(x) for b, x in zip(self.branches, xs)]
        return [F.relu(sum(f(x) for f, x in zip(row, xs))) for row in self.fuse]


class HRNet(nn.Module):
    def __init__(self, c=32, modules=(1, 1, 1)):
        super().__init__()
        self.stem = nn.Sequential(conv_bn(3, 64, 3, 2), conv_bn(64, 64, 3, 2), Basic(64), Basic(64))
        self.first = nn.ModuleList([conv_bn(64, c), conv_bn(64, 2 * c, 3, 2)])
        self.stages, self.grow = nn.ModuleList(), nn.ModuleList()
        for s, n in enumerate(modules):
            widths = [c * 2**k for k in range(s + 2)]
            self.stages.append(nn.ModuleList(Exchange(widths) for _ in range(n)))
            self.grow.append(conv_bn(widths[-1], 2 * widths[-1], 3, 2) if s < 2 else nn.Identity())
        self.head = nn.Conv2d(c, JOINTS, 1)

    def forward(self, x):
        x = self.stem(x)
        xs = [f(x) for f in self.first]
        for s, (stage, grow) in enumerate(zip(self.stages, self.grow)):
            for module in stage:
                xs = module(xs)
            if s < 2:
                xs = xs + [grow(xs[-1])]
        return self.head(xs[0])


def prepare(batch, device):
    image, joints, visible = (t.to(device, non_blocking=True) for t in batch)
    image = image.float().div_(127.5).sub_(1).contiguous(memory_format=torch.channels_last)
    return image, joints, visible


@torch.no_grad()
def pck(net, loader, device, radius=4.0):
    net.eval()
    hit = seen = 0.0
    for batch in loader:
        image, joints, visible = prepare(batch, device)
        with torch.autocast(device, torch.bfloat16):
            maps = net(image)
        at = maps.flatten(2).argmax(-1)
        guess = torch.stack([at % maps.shape[-1], at // maps.shape[-1]], -1).float()
        near = (guess - joints).norm(dim=-1) < radius
        hit += (near.float() * visible).sum().item()
        seen += visible.sum().item()
    net.train()
    return hit / max(seen, 1)


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--size", type=int, nargs=2, default=[384, 288])
    p.add_argument("--batch", type=int, default=64)
    p.add_argument("--train", type=int, default=1280)
    p.add_argument("--val", type=int, default=256)
    p.add_argument("--epochs", type=int, default=2)
    p.add_argument("--width", type=int, default=40)
    p.add_argument("--workers", type=int, default=4)
    a = p.parse_args()
    torch.manual_seed(17)
    device = "cuda" if torch.cuda.is_available() else "cpu"
    train = DataLoader(
        Climbers(a.train, *a.size, 1),
        a.batch,
        shuffle=True,
        num_workers=a.workers,
        pin_memory=True,
        drop_last=True,
    )
    val = DataLoader(Climbers(a.val, *a.size, 2), a.batch, num_workers=a.workers, pin_memory=True)
    net = HRNet(a.width).to(device, memory_format=torch.channels_last)
    run = torch.compile(net)
    opt = torch.optim.Adam(net.parameters(), lr=1e-3)
    sched = torch.optim.lr_scheduler.MultiStepLR(opt, milestones=[1], gamma=0.1)
    best = -1.0
    with tempfile.TemporaryDirectory() as folder:
        for epoch in range(a.epochs):
            total = 0.0
            for batch in train:
                image, joints, visible = prepare(batch, device)
                target = heatmaps(joints, image.shape[2] // 4, image.shape[3] // 4)
                with torch.autocast(device, torch.bfloat16):
                    maps = run(image)
                loss = ((maps.float() - target).pow(2).mean((2, 3)) * visible).mean()
                opt.zero_grad(set_to_none=True)
                loss.backward()
                opt.step()
                total += loss.item()
            sched.step()
            score = pck(net, val, device)
            print(f"epoch {epoch}: loss {total / len(train):.5f} PCK {score:.3f}")
            if score > best:
                best = score
                torch.save(
                    {k: v.cpu() for k, v in net.state_dict().items()},
                    os.path.join(folder, "best.pt"),
                )
    print("best PCK", best)


if __name__ == "__main__":
    main()
