"""Deep GCNII on one large graph of wiki pages (full-batch node classification) with separate weight decay for the convolutions and early stopping."""

import argparse
import copy

import torch
import torch.nn.functional as F
from torch import nn
from torch_geometric.data import Data
from torch_geometric.nn import GCN2Conv
from torch_geometric.utils import to_undirected


def wiki_graph(pages, links, features, topics, seed):
    g = torch.Generator().manual_seed(seed)
    topic = torch.randint(0, topics, (pages,), generator=g)
    source = torch.randint(0, pages, (links,), generator=g)
    target = (torch.rand(links, generator=g).pow(2) * pages).long()
    data = Data(
        x=torch.randn(pages, features, generator=g) + 0.5 * F.one_hot(topic, features),
        edge_index=to_undirected(torch.stack([source, target]), num_nodes=pages),
        y=topic,
    )
    draw = torch.rand(pages, generator=g)
    data.train_mask, data.val_mask, data.test_mask = (
        draw < 0.5,
        (draw >= 0.5) & (draw < 0.7),
        draw >= 0.7,
    )
    return data


class GCNII(nn.Module):
    def __init__(self, features, hidden, layers, topics, alpha=0.1, theta=0.5, dropout=0.3):
        super().__init__()
        self.first, self.last = nn.Linear(features, hidden), nn.Linear(hidden, topics)
        self.convs = nn.ModuleList(
            GCN2Conv(hidden, alpha, theta, layer + 1, cached=True) for layer in range(layers)
        )
        self.norms = nn.ModuleList(nn.LayerNorm(hidden) for _ in range(layers))
        self.dropout = dropout

    def forward(self, x, edge_index):
        x = x0 = self.first(F.dropout(x, self.dropout, self.training)).relu()
        for conv, norm in zip(self.convs, self.norms):
            h = conv(F.dropout(x, self.dropout, self.training), x0, edge_index)
            x = norm(h).relu() + x
        return self.last(F.dropout(x, self.dropout, self.training))


@torch.no_grad()
def accuracy(model, data):
    model.eval()
    guess = model(data.x, data.edge_index).argmax(-1)
    masks = (data.train_mask, data.val_mask, data.test_mask)
    return [(guess[m] == data.y[m]).float().mean().item() for m in masks]


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--device", default="cuda")
    p.add_argument("--pages", type=int, default=100_000)
    p.add_argument("--links", type=int, default=600_000)
    p.add_argument("--features", type=int, default=300)
    p.add_argument("--topics", type=int, default=25)
    p.add_argument("--hidden", type=int, default=256)
    p.add_argument("--layers", type=int, default=16)
    p.add_argument("--epochs", type=int, default=24)
    p.add_argument("--patience", type=int, default=10)
    a = p.parse_args()
    torch.manual_seed(50)

    data = wiki_graph(a.pages, a.links, a.features, a.topics, 3).to(a.device)
    print(data)
    model = GCNII(a.features, a.hidden, a.layers, a.topics).to(a.device)
    optimizer = torch.optim.Adam(
        [
            {
                "params": [*model.convs.parameters(), *model.norms.parameters()],
                "weight_decay": 0.01,
            },
            {"params": model.first.parameters(), "weight_decay": 5e-4},
            {"params": model.last.parameters(), "weight_decay": 5e-4},
        ],
        lr=0.01,
    )
    best, best_state, waited = 0.0, None, 0
    for epoch in range(1, a.epochs + 1):
        model.train()
        optimizer.zero_grad()
        out = model(data.x, data.edge_index)[data.train_mask]
        loss = F.cross_entropy(out, data.y[data.train_mask])
        loss.backward()
        optimizer.step()
        train, val, test = accuracy(model, data)
        if val > best:
            best, waited = val, 0
            best_state = copy.deepcopy(model.state_dict())
        else:
            waited += 1
        if epoch % 4 == 0:
            print(
                f"{epoch:03d} loss {loss.item():.4f} train {train:.3f} val {val:.3f} test {test:.3f}"
            )
        if waited > a.patience:
            break
    if best_state is not None:
        model.load_state_dict(best_state)
    print("test accuracy of the best", accuracy(model, data)[2])


if __name__ == "__main__":
    main()
