"""Full-batch GCN with residual connections on a citation-like graph (torch_geometric), early stopping."""

import argparse
import copy

import torch
import torch.nn.functional as F
from torch_geometric.data import Data
from torch_geometric.nn import GCNConv
from torch_geometric.utils import add_self_loops, to_undirected


def make_graph(nodes, edges, features, classes):
    torch.manual_seed(12345)
    y = torch.randint(0, classes, (nodes,))
    # preferential towards the same class: sort nodes by class and connect near ones
    order = torch.argsort(y)
    src = torch.randint(0, nodes, (edges,))
    offset = (torch.randn(edges) * nodes / classes / 3).long()
    dst = (src + offset) % nodes
    edge_index = to_undirected(torch.stack([order[src], order[dst]]), num_nodes=nodes)
    x = torch.randn(nodes, features) + 0.3 * F.one_hot(y, features).float()
    perm = torch.randperm(nodes)
    data = Data(x=x, edge_index=edge_index, y=y)
    for name, part in zip(
        ("train", "val", "test"), perm.tensor_split([int(0.54 * nodes), int(0.72 * nodes)])
    ):
        mask = torch.zeros(nodes, dtype=torch.bool)
        mask[part] = True
        data[f"{name}_mask"] = mask
    return data


class GCN(torch.nn.Module):
    def __init__(self, in_channels, hidden_channels, out_channels, num_layers, dropout):
        super().__init__()
        self.lin_in = torch.nn.Linear(in_channels, hidden_channels)
        self.convs = torch.nn.ModuleList()
        self.bns = torch.nn.ModuleList()
        for _ in range(num_layers):
            self.convs.append(GCNConv(hidden_channels, hidden_channels))
            self.bns.append(torch.nn.BatchNorm1d(hidden_channels))
        self.lin_out = torch.nn.Linear(hidden_channels, out_channels)
        self.dropout = dropout

    def forward(self, x, edge_index):
        x = self.lin_in(x).relu()
        for conv, bn in zip(self.convs, self.bns):
            h = conv(x, edge_index)
            h = bn(h)
            h = F.relu(h)
            h = F.dropout(h, p=self.dropout, training=self.training)
            x = x + h
        return self.lin_out(x)


def train(model, data, optimizer):
    model.train()
    optimizer.zero_grad()
    out = model(data.x, data.edge_index)
    loss = F.cross_entropy(out[data.train_mask], data.y[data.train_mask])
    loss.backward()
    optimizer.step()
    return loss.item()


@torch.no_grad()
def test(model, data):
    model.eval()
    pred = model(data.x, data.edge_index).argmax(dim=-1)
    accs = []
    for mask in [data.train_mask, data.val_mask, data.test_mask]:
        accs.append(int((pred[mask] == data.y[mask]).sum()) / int(mask.sum()))
    return accs


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--nodes", type=int, default=169343)
    parser.add_argument("--edges", type=int, default=1166243)
    parser.add_argument("--features", type=int, default=128)
    parser.add_argument("--classes", type=int, default=40)
    parser.add_argument("--hidden_channels", type=int, default=256)
    parser.add_argument("--num_layers", type=int, default=6)
    parser.add_argument("--dropout", type=float, default=0.5)
    parser.add_argument("--lr", type=float, default=0.005)
    parser.add_argument("--epochs", type=int, default=60)
    parser.add_argument("--patience", type=int, default=15)
    args = parser.parse_args()

    device = torch.device("cuda")
    data = make_graph(args.nodes, args.edges, args.features, args.classes)
    data.edge_index, _ = add_self_loops(data.edge_index, num_nodes=data.num_nodes)
    print(data)
    data = data.to(device)
    model = GCN(
        args.features, args.hidden_channels, args.classes, args.num_layers, args.dropout
    ).to(device)
    optimizer = torch.optim.Adam(model.parameters(), lr=args.lr, weight_decay=5e-4)

    best_val_acc = final_test_acc = 0
    best_weights, wait = None, 0
    for epoch in range(1, args.epochs + 1):
        loss = train(model, data, optimizer)
        train_acc, val_acc, tmp_test_acc = test(model, data)
        if val_acc > best_val_acc:
            best_val_acc, final_test_acc, wait = val_acc, tmp_test_acc, 0
            best_weights = copy.deepcopy(model.state_dict())
        else:
            wait += 1
        if epoch % 5 == 0:
            print(
                f"Epoch {epoch:03d} Loss {loss:.4f} Train {train_acc:.4f} Val {val_acc:.4f} Test {final_test_acc:.4f}"
            )
        if wait >= args.patience:
            print("stopping early at epoch", epoch)
            break
    model.load_state_dict(best_weights)
    print("final", test(model, data))
