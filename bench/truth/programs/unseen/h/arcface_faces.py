"""Face recognition with an ArcFace head; one optimizer for the trunk, one for the identity matrix."""

import argparse
import math

import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader, Dataset
from torchvision.models import resnet34


class Faces(Dataset):
    def __init__(self, n, identities):
        self.pool = torch.randint(0, 256, (256, 3, 112, 112), dtype=torch.uint8)
        self.who = torch.randint(0, identities, (n,))

    def __len__(self):
        return len(self.who)

    def __getitem__(self, i):
        x = self.pool[i % 256]
        return (x if i % 2 else x.flip(-1)), self.who[i]


class Trunk(nn.Module):
    def __init__(self, dim=512):
        super().__init__()
        net = resnet34(weights=None)
        net.conv1 = nn.Conv2d(3, 64, 3, stride=1, padding=1, bias=False)
        net.fc = nn.Identity()
        net.avgpool = nn.Identity()
        self.net = net
        self.neck = nn.Sequential(
            nn.BatchNorm1d(512 * 7 * 7),
            nn.Dropout(0.4),
            nn.Linear(512 * 7 * 7, dim),
            nn.BatchNorm1d(dim),
        )

    def forward(self, x):
        return self.neck(self.net(x))


class ArcMargin(nn.Module):
    def __init__(self, dim, identities, scale=64.0, margin=0.5):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(identities, dim) * 0.01)
        self.scale, self.cos_m, self.sin_m = scale, math.cos(margin), math.sin(margin)
        self.floor = math.cos(math.pi - margin)

    def forward(self, emb, who):
        cos = F.linear(F.normalize(emb.float()), F.normalize(self.weight)).clamp(-1, 1)
        sin = torch.sqrt((1 - cos * cos).clamp(min=1e-9))
        phi = torch.where(cos > self.floor, cos * self.cos_m - sin * self.sin_m, cos - 0.2)
        mine = F.one_hot(who, cos.shape[1]).bool()
        return F.cross_entropy(self.scale * torch.where(mine, phi, cos), who)


def verify(trunk, pool, device, batch):
    """Cosine of each face with its mirror image, against that with its neighbour."""
    trunk.eval()
    emb, flipped = [], []
    with torch.no_grad(), torch.autocast("cuda", dtype=torch.bfloat16):
        for x in pool.split(batch):
            x = x.to(device).float() / 127.5 - 1
            emb.append(F.normalize(trunk(x).float()))
            flipped.append(F.normalize(trunk(x.flip(-1)).float()))
    emb, flipped = torch.cat(emb), torch.cat(flipped)
    same = (emb * flipped).sum(1)
    other = (emb * flipped.roll(1, 0)).sum(1)
    return (same > other).float().mean().item()


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--identities", type=int, default=48000)
    ap.add_argument("--faces", type=int, default=5200)
    ap.add_argument("--batch", type=int, default=256)
    ap.add_argument("--epochs", type=int, default=2)
    ap.add_argument("--workers", type=int, default=2)
    args = ap.parse_args()
    torch.manual_seed(3)
    device = "cuda"

    data = Faces(args.faces, args.identities)
    loader = DataLoader(
        data, args.batch, shuffle=True, num_workers=args.workers, drop_last=True, pin_memory=True
    )
    trunk = Trunk().to(device)
    head = ArcMargin(512, args.identities).to(device)
    opt_trunk = torch.optim.SGD(trunk.parameters(), lr=0.05, momentum=0.9, weight_decay=5e-4)
    opt_head = torch.optim.SGD(head.parameters(), lr=0.1, momentum=0.9, weight_decay=5e-4)
    total = args.epochs * len(loader)
    scheds = [
        torch.optim.lr_scheduler.PolynomialLR(o, total_iters=total, power=2)
        for o in (opt_trunk, opt_head)
    ]

    for epoch in range(args.epochs):
        trunk.train()
        for i, (x, who) in enumerate(loader):
            x = x.to(device, non_blocking=True).float() / 127.5 - 1
            who = who.to(device, non_blocking=True)
            with torch.autocast("cuda", dtype=torch.bfloat16):
                emb = trunk(x)
            loss = head(emb, who)
            opt_trunk.zero_grad()
            opt_head.zero_grad()
            loss.backward()
            torch.nn.utils.clip_grad_norm_(trunk.parameters(), 5.0)
            opt_trunk.step()
            opt_head.step()
            for s in scheds:
                s.step()
            if i % 5 == 0:
                print(
                    f"epoch {epoch} step {i} loss {loss.item():.3f} lr {scheds[0].get_last_lr()[0]:.4f}"
                )
        print(f"epoch {epoch} verification {verify(trunk, data.pool, device, 100):.3f}")
        torch.save(trunk.state_dict(), "arcface_trunk.pt")
    torch.save(head.state_dict(), "arcface_head.pt")


if __name__ == "__main__":
    main()
