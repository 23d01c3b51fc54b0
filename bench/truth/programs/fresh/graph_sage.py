"""Nodes of a graph classified by sampled neighbourhoods, written without a graph library."""

import torch
from torch import nn


class Sage(nn.Module):
    def __init__(self, a, b):
        super().__init__()
        self.own, self.near = nn.Linear(a, b), nn.Linear(a, b, bias=False)

    def forward(self, x, source, target, count):
        total = torch.zeros(count, x.shape[1], device=x.device, dtype=x.dtype).index_add_(
            0, target, x[source]
        )
        degree = torch.zeros(count, device=x.device).index_add_(
            0, target, torch.ones_like(target, dtype=torch.float32)
        )
        return self.own(x[:count]) + self.near(total / degree.clamp(min=1)[:, None])


class Net(nn.Module):
    def __init__(self, a=256, width=512, classes=47):
        super().__init__()
        self.layers = nn.ModuleList([Sage(a, width), Sage(width, width), Sage(width, classes)])
        self.norms = nn.ModuleList([nn.BatchNorm1d(width), nn.BatchNorm1d(width)])

    def forward(self, x, hops):
        for i, (layer, (source, target, count)) in enumerate(zip(self.layers, hops)):
            x = layer(x, source, target, count)
            if i < 2:
                x = nn.functional.dropout(self.norms[i](x).relu(), 0.5, self.training)
        return x


nodes, degree = 200_000, 15
features = torch.randn(nodes, 256)
neighbours = torch.randint(0, nodes, (nodes, degree))
labels = torch.randint(0, 47, (nodes,))


def sampled(seeds, fan):
    hops = []
    for k in fan:
        picked = neighbours[seeds][:, torch.randperm(degree)[:k]]
        count = len(seeds)
        target = torch.arange(count).repeat_interleave(k)
        seeds = torch.cat([seeds, picked.flatten()])
        source = torch.arange(count, count + count * k)
        hops.append((source, target, count))
    return seeds, hops[::-1]


net = Net().cuda()
optimizer = torch.optim.Adam(net.parameters(), 3e-3)
for epoch in range(2):
    net.train()
    for seeds in torch.randperm(20_000).split(1024):
        inputs, hops = sampled(seeds, (5, 5, 10))
        hops = [(s.cuda(), t.cuda(), c) for s, t, c in hops]
        out = net(features[inputs].cuda(), hops)
        loss = nn.functional.cross_entropy(out, labels[seeds].cuda())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    net.eval()
    with torch.no_grad():
        right = 0
        for seeds in torch.arange(20_000, 30_000).split(2048):
            inputs, hops = sampled(seeds, (5, 5, 10))
            out = net(features[inputs].cuda(), [(s.cuda(), t.cuda(), c) for s, t, c in hops])
            right += (out.argmax(1).cpu() == labels[seeds]).sum().item()
    print(epoch, loss.item(), right / 10_000)
