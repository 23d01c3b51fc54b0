"""Graph classification with torch-geometric: batches of small graphs of different sizes."""

import torch
import torch.nn.functional as F
from torch_geometric.data import Data
from torch_geometric.loader import DataLoader
from torch_geometric.nn import GINConv, global_add_pool

torch.manual_seed(0)
graphs = []
for i in range(1200):
    draw = torch.Generator().manual_seed(i)
    count = int(torch.randint(20, 200, (1,), generator=draw))
    graphs.append(
        Data(
            x=torch.randn(count, 64, generator=draw),
            edge_index=torch.randint(0, count, (2, 6 * count), generator=draw),
            y=torch.tensor([i % 2]),
        )
    )
train = DataLoader(graphs[:1000], 128, shuffle=True)
test = DataLoader(graphs[1000:], 200)


class Net(torch.nn.Module):
    def __init__(self, width=256, depth=4):
        super().__init__()
        self.layers = torch.nn.ModuleList()
        for i in range(depth):
            inner = torch.nn.Sequential(
                torch.nn.Linear(64 if i == 0 else width, width),
                torch.nn.BatchNorm1d(width),
                torch.nn.ReLU(),
                torch.nn.Linear(width, width),
                torch.nn.ReLU(),
            )
            self.layers.append(GINConv(inner))
        self.head = torch.nn.Linear(width, 2)

    def forward(self, x, edges, batch):
        for layer in self.layers:
            x = layer(x, edges)
        return self.head(global_add_pool(x, batch))


device = "cuda"
model = Net().to(device)
optimizer = torch.optim.AdamW(model.parameters(), 1e-3)
for epoch in range(3):
    model.train()
    total = 0.0
    for data in train:
        data = data.to(device)
        optimizer.zero_grad()
        loss = F.cross_entropy(model(data.x, data.edge_index, data.batch), data.y)
        loss.backward()
        optimizer.step()
        total += float(loss) * data.num_graphs
    model.eval()
    right = 0
    for data in test:
        data = data.to(device)
        with torch.no_grad():
            right += int((model(data.x, data.edge_index, data.batch).argmax(1) == data.y).sum())
    print(epoch, total / 1000, right / 200)
