"""Neural matrix factorisation (NeuMF) for a web shop: big user and item tables, sampled negatives, Adagrad, hit rate at 10."""

import argparse
import math
import time

import torch
import torch.nn.functional as F
from torch import nn


class NeuMF(nn.Module):
    def __init__(self, users, items, dim, hidden=(256, 128, 64)):
        super().__init__()
        self.user_gmf, self.item_gmf = nn.Embedding(users, dim), nn.Embedding(items, dim)
        self.user_mlp, self.item_mlp = nn.Embedding(users, dim), nn.Embedding(items, dim)
        sizes = [2 * dim, *hidden]
        layers = []
        for a, b in zip(sizes, sizes[1:]):
            layers += [nn.Linear(a, b), nn.ReLU(), nn.Dropout(0.1)]
        self.mlp = nn.Sequential(*layers)
        self.out = nn.Linear(dim + hidden[-1], 1)
        for table in (self.user_gmf, self.item_gmf, self.user_mlp, self.item_mlp):
            nn.init.normal_(table.weight, std=0.01)

    def forward(self, user, item):
        gmf = self.user_gmf(user) * self.item_gmf(item)
        mlp = self.mlp(torch.cat([self.user_mlp(user), self.item_mlp(item)], -1))
        return self.out(torch.cat([gmf, mlp], -1)).squeeze(-1)


class Purchases:
    """(user, item) pairs; popular items are bought more often."""

    def __init__(self, users, items, count):
        self.items = items
        self.user = torch.randint(0, users, (count,))
        self.item = (torch.rand(count).pow(3) * items).long()

    def batches(self, size, negatives):
        order = torch.randperm(len(self.user))
        for start in range(0, len(order), size):
            pick = order[start : start + size]
            user = self.user[pick].repeat(1 + negatives)
            wrong = torch.randint(0, self.items, (len(pick) * negatives,))
            item = torch.cat([self.item[pick], wrong])
            label = torch.zeros(len(user))
            label[: len(pick)] = 1
            yield user, item, label


@torch.no_grad()
def evaluate(model, user, item, items, device, k=10):
    """Rank the bought item among 99 that were not."""
    model.eval()
    candidates = torch.randint(0, items, (len(user), 100))
    candidates[:, 0] = item
    scores = model(user[:, None].expand(-1, 100).to(device), candidates.to(device))
    rank = (scores > scores[:, :1]).sum(1)
    hit = rank < k
    ndcg = torch.where(hit, math.log(2) / torch.log(rank.float() + 2), 0.0)
    model.train()
    return hit.float().mean().item(), ndcg.mean().item()


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--device", default="cuda")
    p.add_argument("--users", type=int, default=1_250_000)
    p.add_argument("--items", type=int, default=310_000)
    p.add_argument("--dim", type=int, default=64)
    p.add_argument("--batch", type=int, default=32_768)
    p.add_argument("--negatives", type=int, default=4)
    p.add_argument("--purchases", type=int, default=400_000)
    p.add_argument("--epochs", type=int, default=2)
    p.add_argument("--lr", type=float, default=0.02)
    args = p.parse_args()

    data = Purchases(args.users, args.items, args.purchases)
    model = NeuMF(args.users, args.items, args.dim).to(args.device)
    print(f"{sum(q.numel() for q in model.parameters()) / 1e6:.1f}M parameters")
    optimizer = torch.optim.Adagrad(model.parameters(), lr=args.lr, initial_accumulator_value=0.1)

    for epoch in range(args.epochs):
        began, total, seen = time.time(), 0.0, 0
        for user, item, label in data.batches(args.batch, args.negatives):
            user, item, label = (x.to(args.device) for x in (user, item, label))
            loss = F.binary_cross_entropy_with_logits(model(user, item), label)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            total, seen = total + loss.item() * len(label), seen + len(label)
        n = min(5000, len(data.user))
        hr, ndcg = evaluate(model, data.user[:n], data.item[:n], args.items, args.device)
        print(
            f"epoch {epoch}: loss {total / seen:.4f} HR@10 {hr:.3f} NDCG@10 {ndcg:.3f} "
            f"({time.time() - began:.1f} s)"
        )


if __name__ == "__main__":
    main()
