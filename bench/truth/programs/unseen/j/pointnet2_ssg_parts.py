"""PointNet++ (single scale grouping) for part labels, farthest point sampling written in plain torch."""

import random

import numpy as np
import torch
import torch.nn.functional as F
from torch import nn

POINTS = 2048
PARTS = 50
BATCH = 24
STEPS = 12


def gather(x, idx):
    """x (B,N,C), idx (B,...) -> (B,...,C)"""
    b = torch.arange(x.size(0), device=x.device).view(-1, *[1] * (idx.dim() - 1))
    return x[b, idx]


@torch.no_grad()
def farthest(xyz, n):
    B, N, _ = xyz.shape
    chosen = torch.zeros(B, n, dtype=torch.long, device=xyz.device)
    dist = torch.full((B, N), 1e10, device=xyz.device)
    far = torch.zeros(B, dtype=torch.long, device=xyz.device)
    for i in range(n):
        chosen[:, i] = far
        d = (xyz - gather(xyz, far[:, None])).pow(2).sum(-1)
        dist = torch.minimum(dist, d)
        far = dist.argmax(1)
    return chosen


class SetAbstraction(nn.Module):
    def __init__(self, n, k, cin, dims):
        super().__init__()
        self.n, self.k = n, k
        layers, c = [], cin + 3
        for d in dims:
            layers += [nn.Conv2d(c, d, 1, bias=False), nn.BatchNorm2d(d), nn.ReLU(inplace=True)]
            c = d
        self.mlp = nn.Sequential(*layers)

    def forward(self, xyz, feats):
        centre = gather(xyz, farthest(xyz, self.n))
        near = torch.cdist(centre, xyz).topk(self.k, largest=False).indices
        local = gather(xyz, near) - centre[:, :, None]
        if feats is not None:
            local = torch.cat([local, gather(feats, near)], dim=-1)
        h = self.mlp(local.permute(0, 3, 1, 2))
        return centre, h.amax(dim=3).transpose(1, 2)


class Propagation(nn.Module):
    def __init__(self, cin, dims):
        super().__init__()
        layers = []
        for d in dims:
            layers += [nn.Conv1d(cin, d, 1, bias=False), nn.BatchNorm1d(d), nn.ReLU(inplace=True)]
            cin = d
        self.mlp = nn.Sequential(*layers)

    def forward(self, xyz, centre, skip, feats):
        d, idx = torch.cdist(xyz, centre).topk(3, largest=False)
        w = 1 / (d + 1e-6)
        w = w / w.sum(-1, keepdim=True)
        up = (gather(feats, idx) * w[..., None]).sum(2)
        if skip is not None:
            up = torch.cat([skip, up], dim=-1)
        return self.mlp(up.transpose(1, 2)).transpose(1, 2)


class PointNet2(nn.Module):
    def __init__(self):
        super().__init__()
        self.sa1 = SetAbstraction(512, 48, 0, (64, 64, 128))
        self.sa2 = SetAbstraction(128, 64, 128, (128, 128, 256))
        self.sa3 = SetAbstraction(32, 32, 256, (256, 512))
        self.fp3 = Propagation(512 + 256, (256, 256))
        self.fp2 = Propagation(256 + 128, (256, 128))
        self.fp1 = Propagation(128 + 3, (128, 128))
        self.head = nn.Sequential(
            nn.Linear(128, 128), nn.ReLU(), nn.Dropout(0.5), nn.Linear(128, PARTS)
        )

    def forward(self, xyz):
        x1, f1 = self.sa1(xyz, None)
        x2, f2 = self.sa2(x1, f1)
        x3, f3 = self.sa3(x2, f2)
        f2 = self.fp3(x2, x3, f2, f3)
        f1 = self.fp2(x1, x2, f1, f2)
        return self.head(self.fp1(xyz, x1, xyz, f1))


def main():
    random.seed(4)
    np.random.seed(4)
    torch.manual_seed(4)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    net = PointNet2().to(device)
    opt = torch.optim.Adam(net.parameters(), lr=1e-3, weight_decay=1e-4)
    for step in range(STEPS):
        cloud = torch.rand(BATCH, POINTS, 3) * 2 - 1
        label = ((cloud[..., 0] + 1) * PARTS / 2).long().clamp(0, PARTS - 1).to(device)
        cloud = cloud.to(device)
        logits = net(cloud)
        loss = F.cross_entropy(logits.flatten(0, 1), label.flatten())
        opt.zero_grad()
        loss.backward()
        opt.step()
        if step % 3 == 0:
            print(
                f"step {step:2d} loss {loss.item():.4f} acc {(logits.argmax(-1) == label).float().mean().item():.3f}"
            )


if __name__ == "__main__":
    main()
