"""Travel times on road graphs: TransformerConv layers with edge features, torch_geometric mini batches."""

import random

import numpy as np
import torch
import torch.nn.functional as F
from torch import nn
from torch_geometric.data import Data
from torch_geometric.loader import DataLoader
from torch_geometric.nn import LayerNorm, TransformerConv, global_mean_pool

NODES_LOW, NODES_HIGH = 800, 1200
DEGREE = 12
NODE_F, EDGE_F = 24, 8
HIDDEN, HEADS, LAYERS = 64, 4, 5


def road_graph(rng):
    n = int(rng.integers(NODES_LOW, NODES_HIGH + 1))
    source = np.repeat(np.arange(n), DEGREE)
    target = (source + rng.integers(1, 60, n * DEGREE)) % n
    edge_index = torch.from_numpy(np.stack([source, target]))
    x = torch.from_numpy(rng.standard_normal((n, NODE_F), dtype=np.float32))
    edge_attr = torch.from_numpy(rng.random((n * DEGREE, EDGE_F), dtype=np.float32))
    y = edge_attr[:, 0].mean().view(1) + 0.1 * x[:, 0].mean()
    return Data(x=x, edge_index=edge_index, edge_attr=edge_attr, y=y)


class RoadNet(nn.Module):
    def __init__(self):
        super().__init__()
        dim = HIDDEN * HEADS
        self.lift = nn.Linear(NODE_F, dim)
        self.convs = nn.ModuleList()
        self.norms = nn.ModuleList()
        for _ in range(LAYERS):
            self.convs.append(
                TransformerConv(dim, HIDDEN, heads=HEADS, edge_dim=EDGE_F, dropout=0.1, beta=True)
            )
            self.norms.append(LayerNorm(dim))
        self.readout = nn.Sequential(nn.Linear(dim, 128), nn.ReLU(), nn.Linear(128, 1))

    def forward(self, data):
        x = self.lift(data.x)
        for conv, norm in zip(self.convs, self.norms):
            h = conv(x, data.edge_index, data.edge_attr)
            x = x + F.relu(norm(h, data.batch))
        return self.readout(global_mean_pool(x, data.batch)).squeeze(-1)


def main():
    seed = 9
    random.seed(seed)
    np.random.seed(seed)
    torch.manual_seed(seed)
    rng = np.random.default_rng(seed)
    device = "cuda" if torch.cuda.is_available() else "cpu"

    train = [road_graph(rng) for _ in range(160)]
    test = [road_graph(rng) for _ in range(32)]
    train_loader = DataLoader(train, batch_size=16, shuffle=True)
    test_loader = DataLoader(test, batch_size=16)

    model = RoadNet().to(device)
    optimizer = torch.optim.Adam(model.parameters(), lr=5e-4)
    for epoch in range(1, 4):
        model.train()
        total = 0.0
        for data in train_loader:
            data = data.to(device)
            optimizer.zero_grad()
            loss = F.smooth_l1_loss(model(data), data.y)
            loss.backward()
            optimizer.step()
            total += loss.item() * data.num_graphs
        model.eval()
        error = 0.0
        with torch.no_grad():
            for data in test_loader:
                data = data.to(device)
                error += (model(data) - data.y).abs().sum().item()
        print(f"Epoch {epoch:02d}, loss {total / len(train):.4f}, test MAE {error / len(test):.4f}")


if __name__ == "__main__":
    main()
