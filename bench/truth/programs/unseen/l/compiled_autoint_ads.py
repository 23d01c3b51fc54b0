"""AutoInt for click prediction: self-attention over field embeddings.

Embedding tables are trained by Adagrad, the rest by Adam (two optimizers);
forward and loss live in one compiled function.  Log loss and AUC on held-out days.
"""

import argparse

import numpy as np
import torch
from torch import nn
from torch.nn import functional as F

FIELDS = [
    1_200_000,
    600_000,
    300_000,
    150_000,
    80_000,
    40_000,
    20_000,
    10_000,
    4_000,
    2_000,
    1_000,
    900,
    800,
    700,
    600,
    500,
    400,
    300,
    200,
    100,
    90,
    80,
    70,
    60,
]
DENSE = 13


class InteractingLayer(nn.Module):
    def __init__(self, dim, heads, dropout):
        super().__init__()
        self.heads = heads
        self.qkv = nn.Linear(dim, 3 * dim, bias=False)
        self.res = nn.Linear(dim, dim, bias=False)
        self.dropout = nn.Dropout(dropout)

    def forward(self, x):
        b, f, d = x.shape
        q, k, v = self.qkv(x).view(b, f, 3, self.heads, d // self.heads).permute(2, 0, 3, 1, 4)
        weight = torch.softmax(q @ k.transpose(-1, -2), dim=-1)
        out = (self.dropout(weight) @ v).transpose(1, 2).reshape(b, f, d)
        return F.relu(out + self.res(x))


class AutoInt(nn.Module):
    def __init__(self, fields, dim=32, heads=4, layers=3, hidden=(512, 256)):
        super().__init__()
        offsets = np.concatenate([[0], np.cumsum(fields)[:-1]])
        self.register_buffer("offsets", torch.tensor(offsets, dtype=torch.long))
        self.table = nn.Embedding(int(sum(fields)), dim)
        self.dense_scale = nn.Parameter(torch.randn(DENSE, dim) * 0.01)
        self.interact = nn.Sequential(*[InteractingLayer(dim, heads, 0.1) for _ in range(layers)])
        width = (len(fields) + DENSE) * dim
        layers_ = []
        last = width
        for h in hidden:
            layers_ += [nn.Linear(last, h), nn.BatchNorm1d(h), nn.ReLU(), nn.Dropout(0.2)]
            last = h
        self.deep = nn.Sequential(*layers_, nn.Linear(last, 1))
        self.head = nn.Linear(width, 1)

    def forward(self, cat, num):
        x = torch.cat([self.table(cat + self.offsets), num.unsqueeze(-1) * self.dense_scale], 1)
        return (self.head(self.interact(x).flatten(1)) + self.deep(x.flatten(1))).squeeze(1)


class Clicks:
    """Zipf-like categories made on the fly, with a hidden linear rule."""

    def __init__(self, fields, device, seed):
        self.gen = torch.Generator(device=device).manual_seed(seed)
        self.sizes = torch.tensor(fields, device=device)
        self.rule = torch.randn(DENSE, device=device, generator=self.gen)
        self.device = device

    def batch(self, n):
        u = torch.rand(n, len(self.sizes), device=self.device, generator=self.gen)
        cat = (u.pow(3) * self.sizes).long()
        num = torch.randn(n, DENSE, device=self.device, generator=self.gen)
        logit = num @ self.rule + torch.sin(cat[:, :4].float()).sum(1)
        y = torch.bernoulli(torch.sigmoid(logit - 1.0), generator=self.gen)
        return cat, num, y


def auc(score, label):
    order = score.argsort()
    rank = torch.empty_like(order, dtype=torch.double)
    rank[order] = torch.arange(1, len(score) + 1, dtype=torch.double)
    pos = label.bool()
    n1, n0 = pos.sum(), (~pos).sum()
    return ((rank[pos].sum() - n1 * (n1 + 1) / 2) / (n1 * n0)).item()


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--batch", type=int, default=32768)
    ap.add_argument("--eval-batch", type=int, default=65536)
    ap.add_argument("--steps", type=int, default=60)
    ap.add_argument("--dim", type=int, default=32)
    ap.add_argument("--shrink", type=int, default=1, help="divide the sizes of the fields")
    args = ap.parse_args()
    torch.manual_seed(8)
    device = "cuda" if torch.cuda.is_available() else "cpu"
    fields = [max(8, n // args.shrink) for n in FIELDS]
    model = AutoInt(fields, dim=args.dim).to(device)
    dense = [p for n, p in model.named_parameters() if not n.startswith("table.")]
    opt_table = torch.optim.Adagrad(model.table.parameters(), lr=0.02)
    opt_dense = torch.optim.Adam(dense, lr=1e-3)
    data = Clicks(fields, device, seed=1)

    @torch.compile
    def loss_fn(cat, num, y):
        return F.binary_cross_entropy_with_logits(model(cat, num), y)

    model.train()
    for step in range(1, args.steps + 1):
        loss = loss_fn(*data.batch(args.batch))
        opt_table.zero_grad(set_to_none=True)
        opt_dense.zero_grad(set_to_none=True)
        loss.backward()
        opt_table.step()
        opt_dense.step()
        if step % 20 == 0:
            print(f"step {step} logloss {loss.item():.4f}")

    model.eval()
    scores, labels = [], []
    with torch.inference_mode():
        for _ in range(3):
            cat, num, y = data.batch(args.eval_batch)
            scores.append(torch.sigmoid(model(cat, num)).cpu())
            labels.append(y.cpu())
    scores, labels = torch.cat(scores), torch.cat(labels)
    print(
        "test logloss %.4f auc %.4f"
        % (F.binary_cross_entropy(scores, labels).item(), auc(scores, labels))
    )


if __name__ == "__main__":
    main()
