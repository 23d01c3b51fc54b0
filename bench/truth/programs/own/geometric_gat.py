"""Node classification with torch-geometric: attention over a random graph, in full batches."""

import torch
import torch.nn.functional as F
from torch_geometric.data import Data
from torch_geometric.nn import GATConv, SAGEConv

device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
count, links = 20_000, 160_000
data = Data(
    x=torch.randn(count, 128),
    edge_index=torch.randint(0, count, (2, links)),
    y=torch.randint(0, 16, (count,)),
    train_mask=torch.rand(count) < 0.6,
).to(device)


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.first = GATConv(128, 32, heads=8, dropout=0.2)
        self.second = SAGEConv(256, 256)
        self.third = GATConv(256, 16, heads=1, concat=False)

    def forward(self, x, edges):
        x = F.elu(self.first(F.dropout(x, 0.2, self.training), edges))
        x = F.relu(self.second(x, edges))
        return self.third(x, edges)


model = Net().to(device)
optimizer = torch.optim.Adam(model.parameters(), 5e-3, weight_decay=5e-4)
best = 0.0
for epoch in range(1, 31):
    model.train()
    optimizer.zero_grad()
    out = model(data.x, data.edge_index)
    loss = F.cross_entropy(out[data.train_mask], data.y[data.train_mask])
    loss.backward()
    optimizer.step()
    model.eval()
    with torch.no_grad():
        guess = model(data.x, data.edge_index).argmax(-1)
        right = int((guess[~data.train_mask] == data.y[~data.train_mask]).sum())
        share = right / int((~data.train_mask).sum())
    best = max(best, share)
print(f"loss {loss:.3f}, best {best:.3f}")
