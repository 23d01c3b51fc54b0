"""Graph transformer (GPSConv: GINE messages plus global attention) that predicts melting points of polymers, with random-walk encodings."""

import math

import torch
import torch.nn.functional as F
from torch import nn
from torch_geometric.data import Data
from torch_geometric.loader import DataLoader
from torch_geometric.nn import GINEConv, GPSConv, global_add_pool
from torch_geometric.utils import to_dense_adj, to_undirected

ATOMS, BONDS, WALK = 40, 6, 12
WIDTH, HEADS, LAYERS = 256, 4, 10
BATCH, EVAL_BATCH, EPOCHS = 96, 176, 3


def polymer(g):
    n = int(torch.randint(60, 181, (1,), generator=g))
    chain = torch.stack([torch.arange(n - 1), torch.arange(1, n)])
    extra = torch.randint(0, n, (2, n // 5), generator=g)
    edge_index = to_undirected(torch.cat([chain, extra[:, extra[0] != extra[1]]], 1), num_nodes=n)
    adj = to_dense_adj(edge_index, max_num_nodes=n)[0]
    walk = adj / adj.sum(1, keepdim=True).clamp(min=1)
    power, pe = walk, []
    for _ in range(WALK):
        pe.append(power.diagonal())
        power = power @ walk
    x = torch.randint(0, ATOMS, (n,), generator=g)
    return Data(
        x=x,
        edge_index=edge_index,
        pe=torch.stack(pe, 1),
        edge_attr=torch.randint(0, BONDS, (edge_index.size(1),), generator=g),
        y=(x.float().mean() / ATOMS + math.log(n) / 5).view(1),
        num_nodes=n,
    )


class GPS(nn.Module):
    def __init__(self):
        super().__init__()
        self.atom = nn.Embedding(ATOMS, WIDTH - 32)
        self.pe = nn.Sequential(nn.BatchNorm1d(WALK), nn.Linear(WALK, 32))
        self.bond = nn.Embedding(BONDS, WIDTH)
        self.convs = nn.ModuleList()
        for _ in range(LAYERS):
            inner = nn.Sequential(nn.Linear(WIDTH, WIDTH), nn.ReLU(), nn.Linear(WIDTH, WIDTH))
            self.convs.append(GPSConv(WIDTH, GINEConv(inner), heads=HEADS, dropout=0.1))
        self.head = nn.Sequential(nn.Linear(WIDTH, WIDTH // 2), nn.ReLU(), nn.Linear(WIDTH // 2, 1))

    def forward(self, data):
        x = torch.cat([self.atom(data.x), self.pe(data.pe)], dim=-1)
        e = self.bond(data.edge_attr)
        for conv in self.convs:
            x = conv(x, data.edge_index, data.batch, edge_attr=e)
        return self.head(global_add_pool(x, data.batch) / 100).squeeze(-1)


def main():
    torch.manual_seed(12)
    g = torch.Generator().manual_seed(13)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    polymers = [polymer(g) for _ in range(1200)]
    train = DataLoader(polymers[:1024], batch_size=BATCH, shuffle=True)
    test = DataLoader(polymers[1024:], batch_size=EVAL_BATCH)
    model = GPS().to(device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=5e-4, weight_decay=1e-5)
    schedule = torch.optim.lr_scheduler.CosineAnnealingWarmRestarts(optimizer, T_0=len(train))
    for epoch in range(EPOCHS):
        model.train()
        total = 0.0
        for i, batch in enumerate(train):
            batch = batch.to(device)
            loss = F.l1_loss(model(batch), batch.y)
            optimizer.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            schedule.step(epoch + i / len(train))
            total += loss.item() * batch.num_graphs
        model.eval()
        with torch.no_grad():
            wrong = sum((model(b) - b.y).abs().sum().item() for b in (x.to(device) for x in test))
        print(f"epoch {epoch}: train {total / 1024:.4f}, test {wrong / len(test.dataset):.4f}")


if __name__ == "__main__":
    main()
