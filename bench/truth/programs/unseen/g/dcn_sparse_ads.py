"""Deep & Cross network for ad clicks. Large embedding tables with sparse gradients: SparseAdam + Adam, log loss, NE."""

import argparse
import math

import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader, IterableDataset, get_worker_info


class AdLog(IterableDataset):
    """Yields whole batches: (dense, flat ids, offsets, single-valued ids, clicks)."""

    def __init__(self, batches, batch_size, dense, tables, multi_hot, seed):
        self.batches, self.batch_size, self.dense = batches, batch_size, dense
        self.tables, self.multi_hot, self.seed = tables, multi_hot, seed

    def __iter__(self):
        info = get_worker_info()
        wid, n = (info.id, info.num_workers) if info else (0, 1)
        for b in range(wid, self.batches, n):
            g = torch.Generator().manual_seed(self.seed * 100003 + b)
            dense = torch.rand(self.batch_size, self.dense, generator=g).mul_(100).log1p_()
            # ids follow a power law
            single = torch.stack(
                [
                    (size * torch.rand(self.batch_size, generator=g) ** 3)
                    .long()
                    .clamp_(max=size - 1)
                    for size in self.tables
                ],
                1,
            )
            counts = torch.randint(1, 2 * self.multi_hot, (self.batch_size,), generator=g)
            offsets = torch.cat([torch.zeros(1, dtype=torch.long), counts.cumsum(0)[:-1]])
            bag = (self.tables[0] * torch.rand(int(counts.sum()), generator=g) ** 3).long()
            click = (
                torch.rand(self.batch_size, generator=g) < 0.03 + 0.2 * (single[:, 0] % 2 == 0)
            ).float()
            yield dense, bag, offsets, single, click


class CrossNet(nn.Module):
    """x0 * (U V x + b) + x, low rank."""

    def __init__(self, dim, layers, rank):
        super().__init__()
        self.v = nn.ModuleList([nn.Linear(dim, rank, bias=False) for _ in range(layers)])
        self.u = nn.ModuleList([nn.Linear(rank, dim) for _ in range(layers)])

    def forward(self, x0):
        x = x0
        for u, v in zip(self.u, self.v):
            x = x0 * u(v(x)) + x
        return x


class DCN(nn.Module):
    def __init__(self, dense, tables, dim, hidden, cross_layers, rank):
        super().__init__()
        self.tables = nn.ModuleList([nn.Embedding(n, dim, sparse=True) for n in tables])
        self.history = nn.EmbeddingBag(tables[0], dim, mode="mean", sparse=True)
        for t in [*self.tables, self.history]:
            nn.init.uniform_(
                t.weight, -1 / math.sqrt(t.num_embeddings), 1 / math.sqrt(t.num_embeddings)
            )
        self.bottom = nn.Sequential(
            nn.BatchNorm1d(dense), nn.Linear(dense, 256), nn.ReLU(), nn.Linear(256, dim), nn.ReLU()
        )
        width = dim * (len(tables) + 2)
        self.cross = CrossNet(width, cross_layers, rank)
        layers, prev = [], width
        for h in hidden:
            layers += [nn.Linear(prev, h), nn.ReLU(), nn.Dropout(0.1)]
            prev = h
        self.deep = nn.Sequential(*layers)
        self.top = nn.Linear(width + prev, 1)

    def forward(self, dense, bag, offsets, single):
        parts = [self.bottom(dense), self.history(bag, offsets)]
        parts += [t(single[:, i]) for i, t in enumerate(self.tables)]
        x0 = torch.cat(parts, dim=1)
        return self.top(torch.cat([self.cross(x0), self.deep(x0)], 1)).squeeze(1)

    def sparse_parameters(self):
        return [t.weight for t in self.tables] + [self.history.weight]

    def dense_parameters(self):
        sparse = {id(p) for p in self.sparse_parameters()}
        return [p for p in self.parameters() if id(p) not in sparse]


def normalized_entropy(logloss, ctr):
    return logloss / -(ctr * math.log(ctr + 1e-9) + (1 - ctr) * math.log(1 - ctr + 1e-9))


def move(batch, device):
    return [t.to(device, non_blocking=True) for t in batch]


def parse():
    p = argparse.ArgumentParser()
    p.add_argument("--batch-size", type=int, default=8192)
    p.add_argument("--train-batches", type=int, default=120)
    p.add_argument("--eval-batches", type=int, default=12)
    p.add_argument("--eval-batch-size", type=int, default=32768)
    p.add_argument("--dense", type=int, default=13)
    p.add_argument(
        "--tables",
        type=int,
        nargs="+",
        default=[2_000_000, 1_500_000, 800_000, 300_000, 100_000] + [20_000] * 8 + [500] * 10,
    )
    p.add_argument("--dim", type=int, default=64)
    p.add_argument("--hidden", type=int, nargs="+", default=[1024, 1024, 512])
    p.add_argument("--cross-layers", type=int, default=3)
    p.add_argument("--rank", type=int, default=256)
    p.add_argument("--multi-hot", type=int, default=20)
    p.add_argument("--workers", type=int, default=6)
    p.add_argument("--device", default="cuda")
    return p.parse_args()


def main():
    a = parse()
    device = torch.device(a.device)
    train = DataLoader(
        AdLog(a.train_batches, a.batch_size, a.dense, a.tables, a.multi_hot, 1),
        batch_size=None,
        num_workers=a.workers,
        pin_memory=True,
    )
    test = DataLoader(
        AdLog(a.eval_batches, a.eval_batch_size, a.dense, a.tables, a.multi_hot, 2),
        batch_size=None,
        num_workers=a.workers,
        pin_memory=True,
    )
    model = DCN(a.dense, a.tables, a.dim, a.hidden, a.cross_layers, a.rank).to(device)
    opt_sparse = torch.optim.SparseAdam(model.sparse_parameters(), lr=1e-3)
    opt_dense = torch.optim.Adam(model.dense_parameters(), lr=1e-3)

    running, ctr = 0.0, 0.0
    for step, batch in enumerate(train, 1):
        dense, bag, offsets, single, click = move(batch, device)
        logit = model(dense, bag, offsets, single)
        loss = F.binary_cross_entropy_with_logits(logit, click)
        opt_sparse.zero_grad()
        opt_dense.zero_grad()
        loss.backward()
        opt_sparse.step()
        opt_dense.step()
        running += loss.item()
        ctr += click.mean().item()
        if step % 20 == 0:
            print(
                f"step {step} logloss {running / step:.5f} NE {normalized_entropy(running / step, ctr / step):.4f}"
            )

    model.eval()
    total, hits, n = 0.0, 0.0, 0
    with torch.inference_mode():
        for batch in test:
            dense, bag, offsets, single, click = move(batch, device)
            p = torch.sigmoid(model(dense, bag, offsets, single))
            total += F.binary_cross_entropy(p, click, reduction="sum").item()
            hits += click.sum().item()
            n += len(click)
    print(
        f"test logloss {total / n:.5f} NE {normalized_entropy(total / n, hits / n):.4f} on {n} rows"
    )


if __name__ == "__main__":
    main()
