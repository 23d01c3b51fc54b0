"""Graph convolutions over a whole graph at once: a sparse matrix in float, everything on the GPU, patience."""

import argparse
import math
import time

import torch
import torch.nn.functional as F
from torch import nn
from torch.nn.parameter import Parameter


class GraphConvolution(nn.Module):
    def __init__(self, in_features, out_features):
        super().__init__()
        self.weight = Parameter(torch.empty(in_features, out_features))
        self.bias = Parameter(torch.empty(out_features))
        std = 1.0 / math.sqrt(out_features)
        self.weight.data.uniform_(-std, std)
        self.bias.data.uniform_(-std, std)

    def forward(self, x, adj):
        support = torch.mm(x, self.weight)
        return torch.spmm(adj, support) + self.bias


class GCN(nn.Module):
    def __init__(self, features, hidden, classes, layers, dropout):
        super().__init__()
        sizes = [features] + [hidden] * (layers - 1) + [classes]
        self.layers = nn.ModuleList([GraphConvolution(i, o) for i, o in zip(sizes[:-1], sizes[1:])])
        self.norms = nn.ModuleList([nn.BatchNorm1d(hidden) for _ in range(layers - 1)])
        self.dropout = dropout

    def forward(self, x, adj):
        for layer, norm in zip(self.layers, self.norms):
            x = F.relu(norm(layer(x, adj)))
            x = F.dropout(x, self.dropout, training=self.training)
        return F.log_softmax(self.layers[-1](x, adj), dim=1)


def load_data(nodes, degree, features, classes, seed):
    g = torch.Generator().manual_seed(seed)
    labels = torch.randint(0, classes, (nodes,), generator=g)
    x = torch.randn(nodes, features, generator=g)
    x[torch.arange(nodes), labels] += 2.0
    source = torch.randint(0, nodes, (nodes * degree,), generator=g)
    target = (source + torch.randint(1, 500, source.shape, generator=g) * classes) % nodes
    loops = torch.arange(nodes)
    rows = torch.cat([source, target, loops])
    columns = torch.cat([target, source, loops])
    adj = torch.sparse_coo_tensor(
        torch.stack([rows, columns]), torch.ones(len(rows)), (nodes, nodes)
    ).coalesce()
    counts = torch.zeros(nodes).index_add_(0, adj.indices()[0], adj.values())
    weight = counts.rsqrt()
    values = adj.values() * weight[adj.indices()[0]] * weight[adj.indices()[1]]
    adj = torch.sparse_coo_tensor(adj.indices(), values, adj.shape).coalesce()
    order = torch.randperm(nodes, generator=g)
    return adj, x, labels, order.split([nodes // 2, nodes // 4, nodes - nodes // 2 - nodes // 4])


def accuracy(output, labels):
    return output.max(1)[1].eq(labels).double().mean()


parser = argparse.ArgumentParser()
parser.add_argument("--no-cuda", action="store_true", default=False)
parser.add_argument("--seed", type=int, default=42)
parser.add_argument("--epochs", type=int, default=60)
parser.add_argument("--patience", type=int, default=20)
parser.add_argument("--lr", type=float, default=0.01)
parser.add_argument("--weight_decay", type=float, default=5e-4)
parser.add_argument("--nodes", type=int, default=160_000)
parser.add_argument("--degree", type=int, default=12)
parser.add_argument("--features", type=int, default=256)
parser.add_argument("--hidden", type=int, default=384)
parser.add_argument("--layers", type=int, default=3)
parser.add_argument("--classes", type=int, default=40)
parser.add_argument("--dropout", type=float, default=0.5)
args = parser.parse_args()
args.cuda = not args.no_cuda and torch.cuda.is_available()
torch.manual_seed(args.seed)
if args.cuda:
    torch.cuda.manual_seed(args.seed)

adj, features, labels, (idx_train, idx_val, idx_test) = load_data(
    args.nodes, args.degree, args.features, args.classes, args.seed
)
model = GCN(args.features, args.hidden, args.classes, args.layers, args.dropout)
optimizer = torch.optim.Adam(model.parameters(), lr=args.lr, weight_decay=args.weight_decay)
if args.cuda:
    model.cuda()
    features = features.cuda()
    adj = adj.cuda()
    labels = labels.cuda()
    idx_train, idx_val, idx_test = idx_train.cuda(), idx_val.cuda(), idx_test.cuda()

best, waited = float("inf"), 0
t_total = time.time()
for epoch in range(args.epochs):
    t = time.time()
    model.train()
    optimizer.zero_grad()
    output = model(features, adj)
    loss_train = F.nll_loss(output[idx_train], labels[idx_train])
    acc_train = accuracy(output[idx_train], labels[idx_train])
    loss_train.backward()
    optimizer.step()

    model.eval()
    with torch.no_grad():
        output = model(features, adj)
        loss_val = F.nll_loss(output[idx_val], labels[idx_val])
    if epoch % 10 == 0:
        print(
            f"Epoch: {epoch:04d} loss_train: {loss_train.item():.4f} acc_train: {acc_train.item():.4f}"
            f" loss_val: {loss_val.item():.4f} time: {time.time() - t:.4f}s"
        )
    if loss_val.item() < best:
        best, waited = loss_val.item(), 0
        torch.save(model.state_dict(), "gcn.pkl")
    else:
        waited += 1
        if waited == args.patience:
            break
print(f"Total time elapsed: {time.time() - t_total:.4f}s")
model.load_state_dict(torch.load("gcn.pkl"))
model.eval()
with torch.no_grad():
    output = model(features, adj)
print(f"Test accuracy {accuracy(output[idx_test], labels[idx_test]).item():.4f}")
