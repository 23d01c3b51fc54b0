"""Recommend books to readers: heterogeneous GraphSAGE with torch_geometric, full-batch link prediction."""

import argparse

import torch
import torch.nn.functional as F
from torch import nn
from torch_geometric.data import HeteroData
from torch_geometric.nn import HeteroConv, SAGEConv
from torch_geometric.transforms import RandomLinkSplit, ToUndirected


def build(readers, books, ratings):
    data = HeteroData()
    data["reader"].x = torch.randn(readers, 64)
    data["book"].x = torch.randn(books, 128)
    popular = (torch.rand(ratings) ** 2 * books).long().clamp(max=books - 1)
    data["reader", "rates", "book"].edge_index = torch.stack(
        [torch.randint(0, readers, (ratings,)), popular]
    )
    data["book", "cites", "book"].edge_index = torch.randint(0, books, (2, ratings // 4))
    return ToUndirected()(data)


class Encoder(nn.Module):
    def __init__(self, edge_types, dim, layers=2):
        super().__init__()
        self.convs = nn.ModuleList(
            HeteroConv({e: SAGEConv((-1, -1), dim) for e in edge_types}, aggr="sum")
            for _ in range(layers)
        )
        self.norms = nn.ModuleList(
            nn.ModuleDict({t: nn.LayerNorm(dim) for t in ("reader", "book")}) for _ in range(layers)
        )

    def forward(self, x, edges):
        for conv, norm in zip(self.convs, self.norms):
            x = {
                t: F.dropout(F.relu(norm[t](h)), 0.2, self.training)
                for t, h in conv(x, edges).items()
            }
        return x


class Decoder(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.mlp = nn.Sequential(nn.Linear(2 * dim, dim), nn.ReLU(), nn.Linear(dim, 1))

    def forward(self, x, pairs):
        return self.mlp(torch.cat([x["reader"][pairs[0]], x["book"][pairs[1]]], -1)).squeeze(-1)


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--readers", type=int, default=60000)
    ap.add_argument("--books", type=int, default=25000)
    ap.add_argument("--ratings", type=int, default=1_500_000)
    ap.add_argument("--dim", type=int, default=192)
    ap.add_argument("--epochs", type=int, default=25)
    args = ap.parse_args()
    torch.manual_seed(12345)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")

    split = RandomLinkSplit(
        num_val=0.05,
        num_test=0.1,
        disjoint_train_ratio=0.2,
        neg_sampling_ratio=1.0,
        add_negative_train_samples=False,
        edge_types=[("reader", "rates", "book")],
        rev_edge_types=[("book", "rev_rates", "reader")],
    )
    train, val, test = (d.to(device) for d in split(build(args.readers, args.books, args.ratings)))
    kind = ("reader", "rates", "book")

    encoder, decoder = Encoder(train.edge_types, args.dim).to(device), Decoder(args.dim).to(device)
    with torch.no_grad():
        encoder(train.x_dict, train.edge_index_dict)  # the lazy layers take their sizes
    opt = torch.optim.Adam([*encoder.parameters(), *decoder.parameters()], lr=3e-3)
    sched = torch.optim.lr_scheduler.StepLR(opt, 10, 0.5)

    @torch.no_grad()
    def evaluate(d):
        encoder.eval(), decoder.eval()
        x = encoder(d.x_dict, d.edge_index_dict)
        score = decoder(x, d[kind].edge_label_index)
        label = d[kind].edge_label
        order = score.argsort()
        ranks = torch.empty_like(score)
        ranks[order] = torch.arange(1, len(score) + 1, device=device, dtype=score.dtype)
        pos = label.sum()
        return (
            (ranks[label == 1].double().sum() - pos * (pos + 1) / 2) / (pos * (len(label) - pos))
        ).item()

    best = 0.0
    for epoch in range(1, args.epochs + 1):
        encoder.train(), decoder.train()
        pos = train[kind].edge_label_index
        neg = torch.stack([pos[0], torch.randint(0, args.books, (pos.shape[1],), device=device)])
        x = encoder(train.x_dict, train.edge_index_dict)
        loss = F.softplus(-(decoder(x, pos) - decoder(x, neg))).mean()
        opt.zero_grad()
        loss.backward()
        opt.step()
        sched.step()
        if epoch % 5 == 0:
            auc = evaluate(val)
            print(f"epoch {epoch} loss {loss.item():.4f} val AUC {auc:.4f}")
            if auc > best:
                best = auc
                torch.save(
                    {"enc": encoder.state_dict(), "dec": decoder.state_dict()}, "hetero_best.pt"
                )
    print(f"test AUC {evaluate(test):.4f}")


if __name__ == "__main__":
    main()
