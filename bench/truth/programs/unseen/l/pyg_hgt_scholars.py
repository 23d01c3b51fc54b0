"""Heterogeneous Graph Transformer over scholars, papers and venues: predicts the field of a paper; full batch, OneCycle, best state kept in memory."""

import copy
from argparse import ArgumentParser

import torch
import torch.nn.functional as F
from torch import nn
from torch_geometric.data import HeteroData
from torch_geometric.nn import HGTConv
from torch_geometric.transforms import RandomNodeSplit, ToUndirected


def library(scholars, papers, venues, fields, seed=0):
    g = torch.Generator().manual_seed(seed)

    def link(a, b, n):
        return torch.stack(
            [torch.randint(0, a, (n,), generator=g), torch.randint(0, b, (n,), generator=g)]
        )

    data = HeteroData()
    field = torch.randint(0, fields, (papers,), generator=g)
    data["paper"].x = torch.randn(papers, 128, generator=g) + F.one_hot(field, 128)
    data["paper"].y = field
    data["scholar"].x = torch.randn(scholars, 64, generator=g)
    data["venue"].num_nodes = venues
    data["scholar", "writes", "paper"].edge_index = link(scholars, papers, papers * 4)
    data["paper", "cites", "paper"].edge_index = link(papers, papers, papers * 6)
    data["paper", "in", "venue"].edge_index = torch.stack(
        [torch.arange(papers), torch.randint(0, venues, (papers,), generator=g)]
    )
    data = ToUndirected(merge=False)(data)
    return RandomNodeSplit(num_val=0.15, num_test=0.15)(data)


class HGT(nn.Module):
    def __init__(self, data, hidden, heads, layers, fields):
        super().__init__()
        self.lin = nn.ModuleDict(
            {t: nn.Linear(data[t].x.shape[1], hidden) for t in ("paper", "scholar")}
        )
        self.venue = nn.Embedding(data["venue"].num_nodes, hidden)
        self.convs = nn.ModuleList(
            HGTConv(hidden, hidden, data.metadata(), heads) for _ in range(layers)
        )
        self.norms = nn.ModuleList(
            nn.ModuleDict({t: nn.LayerNorm(hidden) for t in data.node_types}) for _ in range(layers)
        )
        self.out = nn.Linear(hidden, fields)

    def forward(self, x_dict, edge_index_dict):
        h = {t: self.lin[t](x_dict[t]).relu() for t in self.lin}
        h["venue"] = self.venue.weight
        for conv, norm in zip(self.convs, self.norms):
            new = conv(h, edge_index_dict)
            h = {t: F.dropout(norm[t](new[t]), 0.2, self.training) for t in h}
        return self.out(h["paper"])


def main():
    ap = ArgumentParser()
    ap.add_argument("--scholars", type=int, default=60_000)
    ap.add_argument("--papers", type=int, default=70_000)
    ap.add_argument("--venues", type=int, default=400)
    ap.add_argument("--fields", type=int, default=30)
    ap.add_argument("--hidden", type=int, default=128)
    ap.add_argument("--heads", type=int, default=8)
    ap.add_argument("--layers", type=int, default=3)
    ap.add_argument("--epochs", type=int, default=50)
    a = ap.parse_args()
    torch.manual_seed(12)
    device = "cuda" if torch.cuda.is_available() else "cpu"
    data = library(a.scholars, a.papers, a.venues, a.fields).to(device)
    model = HGT(data, a.hidden, a.heads, a.layers, a.fields).to(device)
    opt = torch.optim.AdamW(model.parameters(), lr=2e-3, weight_decay=1e-3)
    sched = torch.optim.lr_scheduler.OneCycleLR(opt, max_lr=4e-3, total_steps=a.epochs)
    paper = data["paper"]
    x_dict = {"paper": paper.x, "scholar": data["scholar"].x}
    best, state = 0.0, None
    for epoch in range(a.epochs):
        model.train()
        out = model(x_dict, data.edge_index_dict)
        loss = F.cross_entropy(out[paper.train_mask], paper.y[paper.train_mask])
        opt.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        opt.step()
        sched.step()
        if epoch % 10 == 9:
            model.eval()
            with torch.no_grad():
                right = model(x_dict, data.edge_index_dict).argmax(-1) == paper.y
            val = right[paper.val_mask].float().mean().item()
            print(
                f"{epoch + 1}: loss {loss.item():.4f} val {val:.4f} test {right[paper.test_mask].float().mean().item():.4f}"
            )
            if val > best:
                best, state = val, copy.deepcopy(model.state_dict())
    if state is not None:
        model.load_state_dict(state)
    print("best val", best)


if __name__ == "__main__":
    main()
