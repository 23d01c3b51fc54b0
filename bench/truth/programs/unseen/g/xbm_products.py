"""Metric learning on product photos: EfficientNet embedding, multi-similarity loss over a cross-batch memory queue,
P x K batches, Recall@K on a gallery."""

import argparse
import random
from collections import defaultdict

import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader, Dataset, Sampler
from torchvision.models import efficientnet_b0


class Products(Dataset):
    def __init__(self, classes, per_class, size, seed=0, train=True):
        self.labels = [c for c in range(classes) for _ in range(per_class)]
        self.size, self.seed, self.train = size, seed, train
        g = torch.Generator().manual_seed(seed)
        self.proto = torch.randn(classes, 3, 8, 8, generator=g)

    def __len__(self):
        return len(self.labels)

    def __getitem__(self, i):
        c = self.labels[i]
        x = F.interpolate(
            self.proto[c][None] + 0.5 * torch.randn(1, 3, 8, 8),
            size=(self.size, self.size),
            mode="bicubic",
            align_corners=False,
        )[0]
        if self.train and random.random() < 0.5:
            x = x.flip(-1)
        return x, c


class MPerClassSampler(Sampler):
    def __init__(self, labels, m, batch_size, length):
        assert batch_size % m == 0
        self.m, self.batch_size, self.length = m, batch_size, length
        self.by_class = defaultdict(list)
        for i, l in enumerate(labels):
            self.by_class[l].append(i)

    def __len__(self):
        return self.length // self.batch_size * self.batch_size

    def __iter__(self):
        out = []
        classes = list(self.by_class)
        while len(out) < len(self):
            random.shuffle(classes)
            for c in classes[: self.batch_size // self.m]:
                out += random.choices(self.by_class[c], k=self.m)
        return iter(out[: len(self)])


class XBM:
    def __init__(self, size, dim, device):
        self.K = size
        self.feats = torch.zeros(size, dim, device=device)
        self.targets = torch.full((size,), -1, dtype=torch.long, device=device)
        self.ptr = 0

    @property
    def is_full(self):
        return self.targets[-1].item() != -1

    def get(self):
        if self.is_full:
            return self.feats, self.targets
        return self.feats[: self.ptr], self.targets[: self.ptr]

    def enqueue_dequeue(self, feats, targets):
        q = len(targets)
        if self.ptr + q > self.K:
            self.feats[-q:] = feats
            self.targets[-q:] = targets
            self.ptr = 0
        else:
            self.feats[self.ptr : self.ptr + q] = feats
            self.targets[self.ptr : self.ptr + q] = targets
            self.ptr += q


class MultiSimilarityLoss(nn.Module):
    def __init__(self, alpha=2.0, beta=50.0, base=0.5):
        super().__init__()
        self.alpha, self.beta, self.base = alpha, beta, base

    def forward(self, q, ql, r, rl):
        sim = q @ r.t()
        same = ql[:, None] == rl[None]
        pos = same & (sim < 1 - 1e-5)
        neg = ~same
        p = torch.where(pos, torch.exp(-self.alpha * (sim - self.base)), torch.zeros_like(sim)).sum(
            1
        )
        n = torch.where(neg, torch.exp(self.beta * (sim - self.base)), torch.zeros_like(sim)).sum(1)
        return (torch.log1p(p) / self.alpha + torch.log1p(n) / self.beta).mean()


class Embedder(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.backbone = efficientnet_b0(weights=None)
        feats = self.backbone.classifier[1].in_features
        self.backbone.classifier = nn.Identity()
        self.fc = nn.Linear(feats, dim)

    def forward(self, x):
        return F.normalize(self.fc(self.backbone(x)), dim=1)


@torch.no_grad()
def recall_at_k(model, loader, device, ks=(1, 5, 10)):
    model.eval()
    feats, labels = [], []
    for x, y in loader:
        feats.append(model(x.to(device)))
        labels.append(y)
    feats, labels = torch.cat(feats), torch.cat(labels).to(device)
    sim = feats @ feats.t()
    sim.fill_diagonal_(-1)
    idx = sim.topk(max(ks), dim=1)[1]
    hit = labels[idx] == labels[:, None]
    return {k: hit[:, :k].any(1).float().mean().item() for k in ks}


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--classes", type=int, default=400)
    ap.add_argument("--per-class", type=int, default=10)
    ap.add_argument("--size", type=int, default=224)
    ap.add_argument("--dim", type=int, default=512)
    ap.add_argument("--batch", type=int, default=96)
    ap.add_argument("--m", type=int, default=4)
    ap.add_argument("--queue", type=int, default=16384)
    ap.add_argument("--iters", type=int, default=60)
    ap.add_argument("--xbm-start", type=int, default=15)
    ap.add_argument("--gallery-classes", type=int, default=150)
    ap.add_argument("--eval-batch", type=int, default=256)
    ap.add_argument("--workers", type=int, default=8)
    args = ap.parse_args()
    device = torch.device("cuda")
    torch.manual_seed(0)
    random.seed(0)

    train_set = Products(args.classes, args.per_class, args.size)
    gallery = Products(args.gallery_classes, args.per_class, args.size, seed=1, train=False)
    sampler = MPerClassSampler(train_set.labels, args.m, args.batch, args.iters * args.batch)
    train_loader = DataLoader(
        train_set,
        args.batch,
        sampler=sampler,
        num_workers=args.workers,
        pin_memory=True,
        drop_last=True,
    )
    gallery_loader = DataLoader(gallery, args.eval_batch, num_workers=args.workers)

    model = Embedder(args.dim).to(device)
    optimizer = torch.optim.RAdam(
        [
            {"params": model.backbone.parameters(), "lr": 1e-4},
            {"params": model.fc.parameters(), "lr": 1e-3},
        ],
        weight_decay=1e-4,
    )
    scheduler = torch.optim.lr_scheduler.MultiStepLR(
        optimizer, milestones=[args.iters // 2], gamma=0.1
    )
    criterion = MultiSimilarityLoss()
    xbm = XBM(args.queue, args.dim, device)
    print("before:", recall_at_k(model, gallery_loader, device))

    for it, (x, y) in enumerate(train_loader):
        model.train()
        x, y = x.to(device, non_blocking=True), y.to(device, non_blocking=True)
        feats = model(x)
        if it >= args.xbm_start:
            xbm.enqueue_dequeue(feats.detach(), y.detach())
        loss = criterion(feats, y, feats, y)
        log = {"batch_loss": loss.item()}
        if it > args.xbm_start:
            xf, xl = xbm.get()
            xbm_loss = criterion(feats, y, xf, xl)
            log["xbm_loss"] = xbm_loss.item()
            loss = loss + xbm_loss
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        scheduler.step()
        if it % 10 == 0:
            print(
                it,
                " ".join(f"{k}={v:.4f}" for k, v in log.items()),
                f"queue={xbm.get()[0].shape[0]}",
            )
    print("after:", recall_at_k(model, gallery_loader, device))


if __name__ == "__main__":
    main()
