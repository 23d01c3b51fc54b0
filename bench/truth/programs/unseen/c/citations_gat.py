"""Graph attention on a made-up citation graph: sampled neighbourhoods to train, the whole graph to judge."""

import argparse

import torch
import torch.nn.functional as F
from torch import nn


def make_graph(nodes, degree, features, classes, seed):
    g = torch.Generator().manual_seed(seed)
    y = torch.randint(0, classes, (nodes,), generator=g)
    source = torch.randint(0, nodes, (nodes * degree,), generator=g)
    target = torch.arange(nodes).repeat_interleave(degree)
    x = torch.randn(nodes, features, generator=g)
    x[:, :classes] += F.one_hot(y, classes) * 2.0
    order = target.argsort()
    pointer = torch.zeros(nodes + 1, dtype=torch.long)
    pointer[1:] = torch.bincount(target, minlength=nodes).cumsum(0)
    return x, y, source[order], target[order], pointer


class GATLayer(nn.Module):
    def __init__(self, i, o, heads):
        super().__init__()
        self.heads, self.o = heads, o
        self.w = nn.Linear(i, heads * o, bias=False)
        self.a_from = nn.Parameter(torch.randn(heads, o) * 0.1)
        self.a_to = nn.Parameter(torch.randn(heads, o) * 0.1)
        self.skip = nn.Linear(i, heads * o)

    def forward(self, x, source, target, count):
        h = self.w(x).view(-1, self.heads, self.o)
        score = (h * self.a_from).sum(-1)[source] + (h[:count] * self.a_to).sum(-1)[target]
        score = F.leaky_relu(score, 0.2)
        top = score.new_full((count, self.heads), -1e9)
        top = top.scatter_reduce(0, target[:, None].expand_as(score), score.detach(), "amax")
        weight = (score - top[target]).exp()
        total = torch.zeros_like(top).index_add(0, target, weight)
        weight = weight / (total[target] + 1e-9)
        out = h.new_zeros(count, self.heads, self.o)
        out = out.index_add(0, target, h[source] * weight[..., None])
        return out.flatten(1) + self.skip(x[:count])


class GAT(nn.Module):
    def __init__(self, features, hidden, heads, classes):
        super().__init__()
        self.layers = nn.ModuleList(
            [GATLayer(features, hidden, heads), GATLayer(hidden * heads, hidden, heads)]
        )
        self.norm = nn.BatchNorm1d(hidden * heads)
        self.out = nn.Linear(hidden * heads, classes)

    def forward(self, x, hops):
        for k, (layer, (source, target, count)) in enumerate(zip(self.layers, hops, strict=True)):
            x = layer(F.dropout(x, 0.2, self.training), source, target, count)
            x = F.elu(self.norm(x) if k == 0 else x)
        return self.out(x)


def sample(seeds, source, pointer, fanouts, g):
    """The hops, the outermost first; every node of a hop keeps `fanout` of its neighbours."""
    hops, nodes = [], seeds
    for fanout in fanouts:
        start, size = pointer[nodes], pointer[nodes + 1] - pointer[nodes]
        pick = (torch.rand(len(nodes), fanout, generator=g) * size[:, None]).long()
        neighbours = source[start[:, None] + pick].flatten()
        others = neighbours.unique()
        others = others[~torch.isin(others, nodes)]
        everyone = torch.cat([nodes, others])
        place = torch.full((int(pointer.numel()),), -1)
        place[everyone] = torch.arange(len(everyone))
        target = torch.arange(len(nodes)).repeat_interleave(fanout)
        hops.insert(0, (place[neighbours], target, len(nodes)))
        nodes = everyone
    return nodes, hops


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--nodes", type=int, default=60000)
    p.add_argument("--degree", type=int, default=12)
    p.add_argument("--features", type=int, default=256)
    p.add_argument("--hidden", type=int, default=64)
    p.add_argument("--heads", type=int, default=4)
    p.add_argument("--classes", type=int, default=40)
    p.add_argument("--batch", type=int, default=1024)
    p.add_argument("--epochs", type=int, default=2)
    p.add_argument("--batches", type=int, default=20)
    a = p.parse_args()
    torch.manual_seed(6)
    g = torch.Generator().manual_seed(6)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    x, y, source, target, pointer = make_graph(a.nodes, a.degree, a.features, a.classes, 6)
    model = GAT(a.features, a.hidden, a.heads, a.classes).to(device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
    train = torch.randperm(a.nodes, generator=g)[: a.nodes // 2]
    whole = [(source.to(device), target.to(device), a.nodes)] * 2
    for epoch in range(a.epochs):
        model.train()
        order = train[torch.randperm(len(train), generator=g)]
        for seeds in order.split(a.batch)[: a.batches]:
            nodes, hops = sample(seeds, source, pointer, (10, 10), g)
            hops = [(s.to(device), t.to(device), n) for s, t, n in hops]
            loss = F.cross_entropy(model(x[nodes].to(device), hops), y[seeds].to(device))
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        model.eval()
        with torch.no_grad():
            guess = model(x.to(device), whole).argmax(1).cpu()
        print(f"epoch {epoch}: loss {loss.item():.3f}, right {(guess == y).float().mean():.3f}")
    torch.save(model.state_dict(), "gat.pt")


if __name__ == "__main__":
    main()
