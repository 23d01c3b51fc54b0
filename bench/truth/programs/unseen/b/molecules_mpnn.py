"""Message passing on made-up molecules of different sizes, batched by hand with index_add and scatter_reduce."""

import argparse
import random

import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader, Dataset


class Molecules(Dataset):
    def __init__(self, count, smallest, largest, seed):
        rng = random.Random(seed)
        self.items = []
        for _ in range(count):
            n = rng.randint(smallest, largest)
            bonds = [(i, rng.randrange(i)) for i in range(1, n)]
            bonds += [tuple(rng.sample(range(n), 2)) for _ in range(n // 3)]
            edges = torch.tensor(bonds + [(b, a) for a, b in bonds]).t()
            atoms = torch.tensor([rng.randrange(20) for _ in range(n)])
            kinds = torch.tensor([rng.randrange(5) for _ in range(edges.size(1))])
            self.items.append((atoms, edges, kinds, atoms.float().mean()))

    def __len__(self):
        return len(self.items)

    def __getitem__(self, i):
        return self.items[i]


def collate(items):
    atoms, edges, kinds, owner, targets, offset = [], [], [], [], [], 0
    for i, (a, e, k, y) in enumerate(items):
        atoms.append(a)
        edges.append(e + offset)
        kinds.append(k)
        owner.append(torch.full((len(a),), i))
        targets.append(y)
        offset += len(a)
    return (
        torch.cat(atoms),
        torch.cat(edges, 1),
        torch.cat(kinds),
        torch.cat(owner),
        torch.stack(targets),
    )


class Layer(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.message = nn.Sequential(
            nn.Linear(3 * dim, dim), nn.SiLU(), nn.Linear(dim, dim), nn.SiLU()
        )
        self.gate = nn.Linear(dim, 1)
        self.update = nn.GRUCell(dim, dim)

    def forward(self, h, e, source, target):
        m = self.message(torch.cat([h[source], h[target], e], -1))
        m = m * torch.sigmoid(self.gate(m))
        total = torch.zeros_like(h).index_add_(0, target, m)
        return self.update(total, h)


class MPNN(nn.Module):
    def __init__(self, dim, depth):
        super().__init__()
        self.atom, self.bond = nn.Embedding(20, dim), nn.Embedding(5, dim)
        self.layers = nn.ModuleList(Layer(dim) for _ in range(depth))
        self.out = nn.Sequential(nn.Linear(2 * dim, dim), nn.SiLU(), nn.Linear(dim, 1))

    def forward(self, atoms, edges, kinds, owner, graphs):
        h, e = self.atom(atoms), self.bond(kinds)
        for layer in self.layers:
            h = layer(h, e, edges[0], edges[1])
        index = owner[:, None].expand_as(h)
        mean = h.new_zeros(graphs, h.size(1)).scatter_reduce(
            0, index, h, "mean", include_self=False
        )
        most = h.new_zeros(graphs, h.size(1)).scatter_reduce(
            0, index, h, "amax", include_self=False
        )
        return self.out(torch.cat([mean, most], -1)).squeeze(-1)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--count", type=int, default=6000)
    parser.add_argument("--smallest", type=int, default=10)
    parser.add_argument("--largest", type=int, default=60)
    parser.add_argument("--batch", type=int, default=512)
    parser.add_argument("--dim", type=int, default=256)
    parser.add_argument("--depth", type=int, default=5)
    parser.add_argument("--epochs", type=int, default=2)
    args = parser.parse_args()
    torch.manual_seed(31)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    train = Molecules(args.count, args.smallest, args.largest, 1)
    test = Molecules(args.count // 6, args.smallest, args.largest, 2)
    train_loader = DataLoader(train, args.batch, shuffle=True, collate_fn=collate)
    test_loader = DataLoader(test, args.batch * 2, collate_fn=collate)
    model = MPNN(args.dim, args.depth).to(device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, amsgrad=True)
    for epoch in range(args.epochs):
        model.train()
        total = 0.0
        for batch in train_loader:
            *graph, y = (t.to(device) for t in batch)
            loss = F.huber_loss(model(*graph, len(y)), y)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            total += loss.item() * len(y)
        model.eval()
        error = 0.0
        with torch.no_grad():
            for batch in test_loader:
                *graph, y = (t.to(device) for t in batch)
                error += (model(*graph, len(y)) - y).abs().sum().item()
        print(f"epoch {epoch}: loss {total / len(train):.4f}, MAE {error / len(test):.4f}")


if __name__ == "__main__":
    main()
