"""Small CoAtNet (MBConv stages, then relative-attention stages) for seed photographs, compiled, with a validation pass."""

import argparse
import time

import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader, Dataset


class Seeds(Dataset):
    def __init__(self, n, size, classes, seed):
        self.n, self.size, self.classes, self.seed = n, size, classes, seed

    def __len__(self):
        return self.n

    def __getitem__(self, i):
        g = torch.Generator().manual_seed(self.seed * 100003 + i)
        picture = torch.rand(3, self.size // 8, self.size // 8, generator=g)
        picture = F.interpolate(picture[None], size=(self.size, self.size), mode="nearest")[0]
        return picture, int(torch.randint(0, self.classes, (1,), generator=g))


class MBConv(nn.Module):
    def __init__(self, cin, cout, stride, expand=4):
        super().__init__()
        mid = cin * expand
        self.pre = nn.BatchNorm2d(cin)
        self.expand = nn.Sequential(
            nn.Conv2d(cin, mid, 1, stride, bias=False), nn.BatchNorm2d(mid), nn.GELU()
        )
        self.depth = nn.Sequential(
            nn.Conv2d(mid, mid, 3, 1, 1, groups=mid, bias=False),
            nn.BatchNorm2d(mid),
            nn.GELU(),
        )
        self.project = nn.Conv2d(mid, cout, 1)
        self.pool = nn.MaxPool2d(2) if stride == 2 else nn.Identity()
        self.match = nn.Conv2d(cin, cout, 1) if cin != cout else nn.Identity()

    def forward(self, x):
        return self.match(self.pool(x)) + self.project(self.depth(self.expand(self.pre(x))))


class RelAttention(nn.Module):
    def __init__(self, dim, side, heads):
        super().__init__()
        self.heads = heads
        self.norm1, self.norm2 = nn.LayerNorm(dim), nn.LayerNorm(dim)
        self.qkv, self.proj = nn.Linear(dim, 3 * dim), nn.Linear(dim, dim)
        self.mlp = nn.Sequential(nn.Linear(dim, 4 * dim), nn.GELU(), nn.Linear(4 * dim, dim))
        self.table = nn.Parameter(torch.zeros(heads, (2 * side - 1) ** 2))
        yy, xx = torch.meshgrid(torch.arange(side), torch.arange(side), indexing="ij")
        pos = torch.stack([yy.flatten(), xx.flatten()])
        rel = pos[:, :, None] - pos[:, None, :] + side - 1
        self.register_buffer("index", rel[0] * (2 * side - 1) + rel[1])

    def forward(self, x):
        b, n, d = x.shape
        qkv = self.qkv(self.norm1(x)).view(b, n, 3, self.heads, d // self.heads)
        q, k, v = qkv.permute(2, 0, 3, 1, 4).unbind(0)
        bias = self.table[:, self.index]
        scores = (q * q.shape[-1] ** -0.5) @ k.transpose(-2, -1) + bias
        y = scores.softmax(-1).to(v.dtype) @ v
        x = x + self.proj(y.transpose(1, 2).reshape(b, n, d))
        return x + self.mlp(self.norm2(x))


class CoAtNet(nn.Module):
    def __init__(self, classes, size, dims=(64, 96, 192, 384)):
        super().__init__()
        self.stem = nn.Sequential(
            nn.Conv2d(3, dims[0], 3, 2, 1), nn.BatchNorm2d(dims[0]), nn.GELU()
        )
        self.conv = nn.Sequential(
            MBConv(dims[0], dims[1], 2),
            MBConv(dims[1], dims[1], 1),
            MBConv(dims[1], dims[2], 2),
            MBConv(dims[2], dims[2], 1),
        )
        self.down = nn.Conv2d(dims[2], dims[3], 2, 2)
        self.attention = nn.Sequential(*[RelAttention(dims[3], size // 16, 8) for _ in range(4)])
        self.head = nn.Linear(dims[3], classes)

    def forward(self, x):
        x = self.down(self.conv(self.stem(x)))
        x = self.attention(x.flatten(2).transpose(1, 2))
        return self.head(x.mean(1))


def main():
    ap = argparse.ArgumentParser(description=__doc__)
    ap.add_argument("--size", type=int, default=224)
    ap.add_argument("--batch-size", type=int, default=128)
    ap.add_argument("--train-images", type=int, default=2048)
    ap.add_argument("--val-images", type=int, default=256)
    ap.add_argument("--classes", type=int, default=30)
    ap.add_argument("--lr", type=float, default=3e-4)
    ap.add_argument("--workers", type=int, default=4)
    ap.add_argument("--seed", type=int, default=5)
    args = ap.parse_args()

    torch.manual_seed(args.seed)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    loader_args = dict(
        batch_size=args.batch_size,
        num_workers=args.workers,
        pin_memory=True,
        drop_last=True,
    )
    train = DataLoader(
        Seeds(args.train_images, args.size, args.classes, 1),
        shuffle=True,
        **loader_args,
    )
    val = DataLoader(Seeds(args.val_images, args.size, args.classes, 2), **loader_args)

    model = CoAtNet(args.classes, args.size).to(device)
    model = torch.compile(model)
    optimizer = torch.optim.AdamW(model.parameters(), lr=args.lr, weight_decay=0.05)

    t0 = time.time()
    model.train()
    for i, (x, y) in enumerate(train):
        x, y = x.to(device, non_blocking=True), y.to(device, non_blocking=True)
        with torch.autocast(device.type, dtype=torch.bfloat16):
            loss = F.cross_entropy(model(x), y)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        if i % 4 == 0:
            print(f"[{time.time() - t0:5.1f}s] batch {i} loss {loss.item():.3f}")

    model.eval()
    hits = 0
    with torch.no_grad(), torch.autocast(device.type, dtype=torch.bfloat16):
        for x, y in val:
            hits += (model(x.to(device)).argmax(1).cpu() == y).sum().item()
    print(f"validation accuracy {hits / (len(val) * args.batch_size):.3f}")


if __name__ == "__main__":
    main()
