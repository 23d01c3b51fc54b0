"""Predict solubility with PyTorch Geometric's AttentiveFP on batches of made-up molecules; RMSE, a last batch that is shorter, larger batches in testing."""

import argparse
from math import sqrt

import torch
import torch.nn.functional as F
from torch_geometric.data import Data, InMemoryDataset
from torch_geometric.loader import DataLoader
from torch_geometric.nn.models import AttentiveFP

ATOM, BOND = 39, 10


class Molecules(InMemoryDataset):
    """Chains with a few rings."""

    def __init__(self, count, low, high, seed):
        super().__init__(root=None)
        g = torch.Generator().manual_seed(seed)
        sizes = torch.randint(low, high + 1, (count,), generator=g).tolist()
        atoms = torch.rand(sum(sizes), ATOM, generator=g)
        graphs, at = [], 0
        for n in sizes:
            chain = torch.arange(n - 1)
            rings = torch.randint(0, n, (2, max(1, n // 8)), generator=g)
            one_way = torch.cat([torch.stack([chain, chain + 1]), rings], 1)
            edge_index = torch.cat([one_way, one_way.flip(0)], 1)
            x = atoms[at : at + n]
            bonds = torch.rand(one_way.size(1), BOND, generator=g).repeat(2, 1)
            graphs.append(Data(x=x, edge_index=edge_index, edge_attr=bonds, y=x[:, :3].sum(0)[:1]))
            at += n
        self.data, self.slices = self.collate(graphs)


def train(model, loader, optimizer, device):
    model.train()
    total = examples = 0
    for batch in loader:
        batch = batch.to(device)
        optimizer.zero_grad()
        out = model(batch.x, batch.edge_index, batch.edge_attr, batch.batch)
        loss = F.mse_loss(out, batch.y.view(-1, 1))
        loss.backward()
        optimizer.step()
        total += loss.item() * batch.num_graphs
        examples += batch.num_graphs
    return sqrt(total / examples)


@torch.no_grad()
def test(model, loader, device):
    model.eval()
    errors = []
    for batch in loader:
        batch = batch.to(device)
        out = model(batch.x, batch.edge_index, batch.edge_attr, batch.batch)
        errors.append((out - batch.y.view(-1, 1)).square().cpu())
    return torch.cat(errors).mean().sqrt().item()


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--device", default="cuda")
    p.add_argument("--molecules", type=int, default=5000)
    p.add_argument("--smallest", type=int, default=12)
    p.add_argument("--largest", type=int, default=40)
    p.add_argument("--batch", type=int, default=1536)
    p.add_argument("--hidden", type=int, default=400)
    p.add_argument("--layers", type=int, default=5)
    p.add_argument("--timesteps", type=int, default=3)
    p.add_argument("--epochs", type=int, default=4)
    a = p.parse_args()
    torch.manual_seed(12)

    learn = Molecules(a.molecules, a.smallest, a.largest, 1)
    check = Molecules(a.molecules // 4, a.smallest, a.largest, 2)
    loader = DataLoader(learn, batch_size=a.batch, shuffle=True)
    check_loader = DataLoader(check, batch_size=2 * a.batch)
    model = AttentiveFP(
        in_channels=ATOM,
        hidden_channels=a.hidden,
        out_channels=1,
        edge_dim=BOND,
        num_layers=a.layers,
        num_timesteps=a.timesteps,
        dropout=0.2,
    ).to(a.device)
    print(learn, f"{sum(q.numel() for q in model.parameters()):,} parameters")
    optimizer = torch.optim.Adam(model.parameters(), lr=10**-2.5, weight_decay=10**-5)
    for epoch in range(1, a.epochs + 1):
        learned = train(model, loader, optimizer, a.device)
        checked = test(model, check_loader, a.device)
        print(f"epoch {epoch:02d} RMSE train {learned:.4f} test {checked:.4f}")


if __name__ == "__main__":
    main()
