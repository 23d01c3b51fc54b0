"""Semantic segmentation of room scans with a small Point Transformer (vector attention over k nearest neighbours)."""

import argparse
import math

import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader, Dataset


def knn(query, ref, k):
    return torch.cdist(query, ref).topk(k, largest=False).indices


def take(x, idx):
    b = torch.arange(x.size(0), device=x.device).view(-1, *[1] * (idx.dim() - 1))
    return x[b, idx]


@torch.no_grad()
def farthest(xyz, m):
    b, n, _ = xyz.shape
    dist = torch.full((b, n), 1e10, device=xyz.device)
    cur = torch.zeros(b, dtype=torch.long, device=xyz.device)
    rows = torch.arange(b, device=xyz.device)
    picks = []
    for _ in range(m):
        picks.append(cur)
        dist = torch.minimum(dist, ((xyz - xyz[rows, cur][:, None]) ** 2).sum(-1))
        cur = dist.argmax(1)
    return torch.stack(picks, 1)


class VectorAttention(nn.Module):
    def __init__(self, c, k):
        super().__init__()
        self.k = k
        self.q, self.kk, self.v = nn.Linear(c, c), nn.Linear(c, c), nn.Linear(c, c)
        self.pos = nn.Sequential(nn.Linear(3, c), nn.ReLU(), nn.Linear(c, c))
        self.gamma = nn.Sequential(nn.Linear(c, c), nn.ReLU(), nn.Linear(c, c))
        self.norm, self.out = nn.LayerNorm(c), nn.Linear(c, c)

    def forward(self, xyz, x):
        h = self.norm(x)
        idx = knn(xyz, xyz, self.k)
        rel = self.pos(xyz[:, :, None] - take(xyz, idx))
        a = self.gamma(self.q(h)[:, :, None] - take(self.kk(h), idx) + rel) / math.sqrt(h.size(-1))
        return x + self.out((a.softmax(2) * (take(self.v(h), idx) + rel)).sum(2))


class Down(nn.Module):
    def __init__(self, cin, cout, ratio, k):
        super().__init__()
        self.ratio, self.k = ratio, k
        self.mlp = nn.Sequential(nn.Linear(cin + 3, cout), nn.ReLU(), nn.Linear(cout, cout))

    def forward(self, xyz, x):
        centre = take(xyz, farthest(xyz, xyz.size(1) // self.ratio))
        idx = knn(centre, xyz, self.k)
        local = torch.cat([take(xyz, idx) - centre[:, :, None], take(x, idx)], -1)
        return centre, self.mlp(local).amax(2)


class Up(nn.Module):
    def __init__(self, cin, cskip):
        super().__init__()
        self.a, self.b = nn.Linear(cin, cskip), nn.Linear(cskip, cskip)

    def forward(self, xyz_low, x_low, xyz, skip):
        d, idx = torch.cdist(xyz, xyz_low).topk(3, largest=False)
        w = 1 / (d + 1e-8)
        w = w / w.sum(-1, keepdim=True)
        return F.relu(self.b(skip)) + (take(self.a(x_low), idx) * w[..., None]).sum(2)


class PointTransformer(nn.Module):
    def __init__(self, classes, dims=(48, 96, 192), k=16):
        super().__init__()
        self.embed = nn.Linear(6, dims[0])
        self.att = nn.ModuleList(VectorAttention(d, k) for d in dims)
        self.down = nn.ModuleList(Down(dims[i], dims[i + 1], 4, k) for i in range(2))
        self.up = nn.ModuleList([Up(dims[2], dims[1]), Up(dims[1], dims[0])])
        self.dec = nn.ModuleList([VectorAttention(dims[1], k), VectorAttention(dims[0], k)])
        self.head = nn.Sequential(
            nn.LayerNorm(dims[0]),
            nn.Linear(dims[0], dims[0]),
            nn.ReLU(),
            nn.Dropout(0.3),
            nn.Linear(dims[0], classes),
        )

    def forward(self, pts):
        xyz, x = pts[..., :3].contiguous(), self.embed(pts)
        x = self.att[0](xyz, x)
        stack = [(xyz, x)]
        for down, att in zip(self.down, self.att[1:]):
            xyz, x = down(xyz, x)
            x = att(xyz, x)
            stack.append((xyz, x))
        stack.pop()
        for up, dec in zip(self.up, self.dec):
            fine, skip = stack.pop()
            x = dec(fine, up(xyz, x, fine, skip))
            xyz = fine
        return self.head(x)


class Rooms(Dataset):
    def __init__(self, n, points, classes):
        self.n, self.points, self.classes = n, points, classes

    def __len__(self):
        return self.n

    def __getitem__(self, i):
        pts = torch.rand(self.points, 6)
        return pts, (pts[:, 2] * self.classes).long().clamp(max=self.classes - 1)


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--batch", type=int, default=16)
    p.add_argument("--points", type=int, default=4096)
    p.add_argument("--scans", type=int, default=64)
    p.add_argument("--epochs", type=int, default=2)
    p.add_argument("--classes", type=int, default=13)
    a = p.parse_args()
    device = "cuda" if torch.cuda.is_available() else "cpu"
    train = DataLoader(Rooms(a.scans, a.points, a.classes), a.batch, shuffle=True, drop_last=True)
    val = DataLoader(Rooms(max(1, a.scans // 4), a.points, a.classes), max(1, a.batch // 2))
    net = PointTransformer(a.classes).to(device)
    opt = torch.optim.SGD(net.parameters(), lr=0.1, momentum=0.9, weight_decay=1e-4)
    sched = torch.optim.lr_scheduler.CosineAnnealingLR(opt, a.epochs)
    for epoch in range(a.epochs):
        net.train()
        for pts, y in train:
            loss = F.cross_entropy(
                net(pts.to(device)).flatten(0, 1), y.flatten().to(device), label_smoothing=0.1
            )
            opt.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(net.parameters(), 10.0)
            opt.step()
        sched.step()
        net.eval()
        inter, union = torch.zeros(a.classes), torch.zeros(a.classes)
        with torch.no_grad():
            for pts, y in val:
                pred = net(pts.to(device)).argmax(-1).cpu()
                for c in range(a.classes):
                    inter[c] += ((pred == c) & (y == c)).sum()
                    union[c] += ((pred == c) | (y == c)).sum()
        print(
            f"epoch {epoch} loss {loss.item():.3f} mIoU {(inter / union.clamp(min=1)).mean():.3f}"
        )
        torch.save(net.state_dict(), f"rooms_{epoch}.pt")


if __name__ == "__main__":
    main()
