"""DeeperGCN (GENConv with softmax aggregation, res+ blocks, recomputed activations) that types the cells of a tissue graph; full-graph training."""

import argparse

import torch
import torch.nn.functional as F
from torch.nn import LayerNorm, Linear, ReLU
from torch_geometric.data import Data
from torch_geometric.nn import DeepGCNLayer, GENConv
from torch_geometric.utils import add_self_loops, to_undirected

TYPES = 9


def tissue(nodes, neighbours, features, seed):
    """Cells on a plane; edges to near positions in the sorted order."""
    g = torch.Generator().manual_seed(seed)
    kind = torch.randint(0, TYPES, (nodes,), generator=g)
    source = torch.arange(nodes).repeat_interleave(neighbours)
    hop = torch.randint(1, 400, (nodes * neighbours,), generator=g)
    edges = to_undirected(torch.stack([source, (source + hop) % nodes]), num_nodes=nodes)
    edges, _ = add_self_loops(edges, num_nodes=nodes)
    x = torch.randn(nodes, features, generator=g) + F.one_hot(kind, features).float() * 2
    split = torch.rand(nodes, generator=g)
    return Data(
        x=x,
        edge_index=edges,
        edge_attr=torch.rand(edges.shape[1], 8, generator=g),
        y=kind,
        train_mask=split < 0.6,
        val_mask=(split >= 0.6) & (split < 0.8),
        test_mask=split >= 0.8,
    )


class DeeperGCN(torch.nn.Module):
    def __init__(self, features, hidden, layers, dropout=0.1):
        super().__init__()
        self.node, self.edge = Linear(features, hidden), Linear(8, hidden)
        self.layers = torch.nn.ModuleList()
        for i in range(1, layers + 1):
            conv = GENConv(
                hidden, hidden, aggr="softmax", t=1.0, learn_t=True, num_layers=2, norm="layer"
            )
            self.layers.append(
                DeepGCNLayer(
                    conv,
                    LayerNorm(hidden),
                    ReLU(inplace=True),
                    block="res+",
                    dropout=dropout,
                    ckpt_grad=i % 3 != 0,
                )
            )
        self.out = Linear(hidden, TYPES)
        self.dropout = dropout

    def forward(self, x, edge_index, edge_attr):
        x, edge_attr = self.node(x), self.edge(edge_attr)
        x = self.layers[0].conv(x, edge_index, edge_attr)
        for layer in self.layers[1:]:
            x = layer(x, edge_index, edge_attr)
        x = self.layers[0].act(self.layers[0].norm(x))
        return self.out(F.dropout(x, self.dropout, self.training))


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--nodes", type=int, default=50_000)
    p.add_argument("--neighbours", type=int, default=6)
    p.add_argument("--features", type=int, default=64)
    p.add_argument("--hidden", type=int, default=96)
    p.add_argument("--layers", type=int, default=15)
    p.add_argument("--epochs", type=int, default=40)
    p.add_argument("--patience", type=int, default=4)
    args = p.parse_args()
    torch.manual_seed(62)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    data = tissue(args.nodes, args.neighbours, args.features, 1).to(device)
    print(data)
    model = DeeperGCN(args.features, args.hidden, args.layers).to(device)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)

    @torch.no_grad()
    def test():
        model.eval()
        guess = model(data.x, data.edge_index, data.edge_attr).argmax(-1)
        return [
            (guess[m] == data.y[m]).float().mean().item()
            for m in (data.train_mask, data.val_mask, data.test_mask)
        ]

    best, best_test, bad = 0.0, 0.0, 0
    for epoch in range(1, args.epochs + 1):
        model.train()
        optimizer.zero_grad()
        out = model(data.x, data.edge_index, data.edge_attr)
        loss = F.cross_entropy(out[data.train_mask], data.y[data.train_mask])
        loss.backward()
        optimizer.step()
        if epoch % 5 == 0:
            train, val, tested = test()
            print(
                f"epoch {epoch:03d} loss {loss.item():.4f} train {train:.3f} val {val:.3f} test {tested:.3f}"
            )
            if val > best:
                best, best_test, bad = val, tested, 0
            else:
                bad += 1
                if bad >= args.patience:
                    break
    print("best", best, "test", best_test)


if __name__ == "__main__":
    main()
