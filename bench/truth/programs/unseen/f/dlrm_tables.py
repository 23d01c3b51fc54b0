"""Clicks on adverts: 26 tables of sparse embeddings under SparseAdam, dense layers under Adam, AUC at the end."""

import argparse
import time

import numpy as np
import torch
from torch import nn

SIZES = (
    [10_000_000] * 3 + [5_000_000] * 2 + [2_000_000] * 4 + [500_000] * 6 + [50_000] * 5 + [1000] * 6
)


def mlp(sizes, last_linear=False):
    layers = []
    for i, (a, b) in enumerate(zip(sizes, sizes[1:])):
        linear = nn.Linear(a, b)
        nn.init.normal_(linear.weight, 0.0, np.sqrt(2 / (a + b)))
        nn.init.normal_(linear.bias, 0.0, np.sqrt(1 / b))
        layers.append(linear)
        if not (last_linear and i == len(sizes) - 2):
            layers.append(nn.ReLU())
    return nn.Sequential(*layers)


class DLRM(nn.Module):
    def __init__(self, sizes, width, device):
        super().__init__()
        self.tables = nn.ModuleList()
        for n in sizes:
            table = nn.EmbeddingBag(n, width, mode="sum", sparse=True, device=device)
            bound = float(np.sqrt(1 / n))
            nn.init.uniform_(table.weight, -bound, bound)
            self.tables.append(table)
        self.bottom = mlp([13, 512, 256, width]).to(device)
        pairs = len(sizes) * (len(sizes) + 1) // 2
        self.top = mlp([width + pairs, 1024, 1024, 512, 1], last_linear=True).to(device)
        rows, columns = torch.tril_indices(len(sizes) + 1, len(sizes) + 1, offset=-1)
        self.register_buffer("rows", rows.to(device))
        self.register_buffer("columns", columns.to(device))

    def forward(self, dense, indices, offsets):
        x = self.bottom(dense)
        looked = [table(i, o) for table, i, o in zip(self.tables, indices, offsets)]
        stacked = torch.stack([x, *looked], 1)
        dots = torch.bmm(stacked, stacked.transpose(1, 2))[:, self.rows, self.columns]
        return self.top(torch.cat([x, dots], 1)).squeeze(1)


def make_batch(args, rng, device):
    dense = torch.from_numpy(np.log1p(rng.exponential(2.0, (args.batch, 13))).astype(np.float32))
    indices, offsets = [], []
    for n in SIZES:
        hot = rng.integers(1, args.hot + 1, args.batch)
        rows = (n * rng.random(hot.sum()) ** 3).astype(np.int64)
        indices.append(torch.from_numpy(rows).to(device))
        offsets.append(torch.from_numpy(np.concatenate([[0], hot.cumsum()[:-1]])).to(device))
    clicks = torch.from_numpy((dense[:, 0].numpy() > 1.2).astype(np.float32))
    return dense.to(device), indices, offsets, clicks.to(device)


def auc(scores, labels):
    order = scores.argsort()
    ranks = torch.empty_like(scores).index_put_(
        (order,), torch.arange(1, len(scores) + 1, device=scores.device, dtype=scores.dtype)
    )
    positive = labels.sum()
    return (
        (ranks[labels == 1].sum() - positive * (positive + 1) / 2)
        / (positive * (len(labels) - positive))
    ).item()


def main():
    parser = argparse.ArgumentParser(description="Recommendation")
    parser.add_argument("--batch", type=int, default=4096)
    parser.add_argument("--width", type=int, default=64)
    parser.add_argument("--hot", type=int, default=6)
    parser.add_argument("--steps", type=int, default=60)
    parser.add_argument("--test-batches", type=int, default=8)
    parser.add_argument("--print-freq", type=int, default=10)
    args = parser.parse_args()
    np.random.seed(123)
    torch.manual_seed(123)
    rng = np.random.default_rng(123)
    device = torch.device("cuda")
    model = DLRM(SIZES, args.width, device)
    print(f"tables: {sum(t.weight.numel() for t in model.tables) * 4 / 2**30:.1f} GiB")
    sparse = torch.optim.SparseAdam(list(model.tables.parameters()), lr=1e-3)
    dense = torch.optim.Adam([*model.bottom.parameters(), *model.top.parameters()], lr=1e-3)
    criterion = nn.BCEWithLogitsLoss()
    start = time.time()
    for step in range(1, args.steps + 1):
        x, indices, offsets, y = make_batch(args, rng, device)
        loss = criterion(model(x, indices, offsets), y)
        sparse.zero_grad()
        dense.zero_grad()
        loss.backward()
        sparse.step()
        dense.step()
        if step % args.print_freq == 0:
            print(
                f"{step}: loss {loss.item():.4f}, {1000 * (time.time() - start) / step:.1f} ms a step"
            )
    model.eval()
    scores, labels = [], []
    with torch.no_grad():
        for _ in range(args.test_batches):
            x, indices, offsets, y = make_batch(args, rng, device)
            scores.append(model(x, indices, offsets).sigmoid())
            labels.append(y)
    print(f"AUC {auc(torch.cat(scores), torch.cat(labels)):.4f}")


if __name__ == "__main__":
    main()
