"""A graph network written with plain PyTorch: messages along edges, added up at their ends."""

import torch
import torch.nn.functional as F
from torch import nn

device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
nodes, edges = 60_000, 600_000
features = torch.randn(nodes, 256).to(device)
edge = torch.randint(0, nodes, (2, edges)).to(device)
labels = torch.randint(0, 40, (nodes,)).to(device)
chosen = (torch.rand(nodes) < 0.5).to(device)


class Layer(nn.Module):
    def __init__(self, i, o):
        super().__init__()
        self.own, self.near = nn.Linear(i, o), nn.Linear(i, o, bias=False)

    def forward(self, x):
        source, target = edge
        degree = torch.zeros(nodes, device=x.device).index_add_(
            0, target, torch.ones(edges, device=x.device)
        )
        sums = torch.zeros(nodes, x.shape[1], device=x.device).index_add_(0, target, x[source])
        return self.own(x) + self.near(sums / degree.clamp(min=1).unsqueeze(1))


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList([Layer(256, 256), Layer(256, 256), Layer(256, 40)])

    def forward(self, x):
        for layer in self.layers[:-1]:
            x = F.dropout(F.relu(layer(x)), 0.5, self.training)
        return self.layers[-1](x)


model = Net().to(device)
optimizer = torch.optim.Adam(model.parameters(), 0.01, weight_decay=5e-4)
for epoch in range(20):
    model.train()
    optimizer.zero_grad()
    loss = F.cross_entropy(model(features)[chosen], labels[chosen])
    loss.backward()
    optimizer.step()
    model.eval()
    with torch.no_grad():
        right = (model(features).argmax(-1) == labels)[~chosen].float().mean().item()
    if epoch % 5 == 0:
        print(f"{epoch} loss {loss:.3f} right {right:.3f}")
