"""Proteins as graphs: GIN with a virtual node written by hand, batches of uneven graphs, labels that are missing."""

import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader, Dataset

GRAPHS, EPOCHS, BATCH, EVAL_BATCH = 2400, 2, 192, 600
ATOMS, BONDS, TASKS = 119, 12, 128
WIDTH, LAYERS = 384, 5


class Proteins(Dataset):
    def __init__(self, count, seed):
        self.count, self.seed = count, seed

    def __len__(self):
        return self.count

    def __getitem__(self, i):
        g = torch.Generator().manual_seed(self.seed * 1_000_000 + i)
        n = int(80 + 240 * torch.rand(1, generator=g) ** 2)
        chain = torch.stack([torch.arange(n - 1), torch.arange(1, n)])
        contacts = torch.randint(0, n, (2, 4 * n), generator=g)
        edges = torch.cat([chain, contacts], 1)
        edges = torch.cat([edges, edges.flip(0)], 1)
        y = (torch.rand(TASKS, generator=g) < 0.1).float()
        y[torch.rand(TASKS, generator=g) < 0.3] = float("nan")
        return {
            "x": torch.randint(0, ATOMS, (n,), generator=g),
            "edge_index": edges,
            "edge_attr": torch.randint(0, BONDS, (edges.shape[1],), generator=g),
            "y": y,
        }


class Batch:
    """Graphs laid side by side; `batch` says which graph a node belongs to."""

    def __init__(self, graphs):
        sizes = [len(g["x"]) for g in graphs]
        offsets = [0, *torch.tensor(sizes).cumsum(0).tolist()]
        self.x = torch.cat([g["x"] for g in graphs])
        self.edge_index = torch.cat([g["edge_index"] + o for g, o in zip(graphs, offsets)], 1)
        self.edge_attr = torch.cat([g["edge_attr"] for g in graphs])
        self.batch = torch.repeat_interleave(torch.arange(len(graphs)), torch.tensor(sizes))
        self.y = torch.stack([g["y"] for g in graphs])
        self.count = len(graphs)

    def to(self, device):
        for name, value in vars(self).items():
            if isinstance(value, torch.Tensor):
                setattr(self, name, value.to(device))
        return self


class GINConv(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.mlp = nn.Sequential(
            nn.Linear(width, 2 * width),
            nn.BatchNorm1d(2 * width),
            nn.ReLU(),
            nn.Linear(2 * width, width),
        )
        self.eps = nn.Parameter(torch.zeros(1))
        self.bond = nn.Embedding(BONDS, width)

    def forward(self, x, edge_index, edge_attr):
        source, target = edge_index
        messages = F.relu(x[source] + self.bond(edge_attr))
        summed = torch.zeros_like(x).index_add_(0, target, messages)
        return self.mlp((1 + self.eps) * x + summed)


class GIN(nn.Module):
    def __init__(self):
        super().__init__()
        self.atom = nn.Embedding(ATOMS, WIDTH)
        self.virtual = nn.Embedding(1, WIDTH)
        self.convs = nn.ModuleList([GINConv(WIDTH) for _ in range(LAYERS)])
        self.norms = nn.ModuleList([nn.BatchNorm1d(WIDTH) for _ in range(LAYERS)])
        self.virtual_mlps = nn.ModuleList(
            [
                nn.Sequential(nn.Linear(WIDTH, WIDTH), nn.LayerNorm(WIDTH), nn.ReLU())
                for _ in range(LAYERS - 1)
            ]
        )
        self.head = nn.Linear(WIDTH, TASKS)

    def forward(self, data):
        x = self.atom(data.x)
        virtual = self.virtual(torch.zeros(data.count, dtype=torch.long, device=x.device))
        for i, (conv, norm) in enumerate(zip(self.convs, self.norms)):
            x = x + virtual[data.batch]
            h = norm(conv(x, data.edge_index, data.edge_attr))
            h = F.dropout(F.relu(h) if i < LAYERS - 1 else h, 0.3, self.training)
            if i < LAYERS - 1:
                pooled = torch.zeros_like(virtual).index_add_(0, data.batch, x)
                virtual = virtual + self.virtual_mlps[i](pooled + virtual)
            x = h + x
        total = x.new_zeros(data.count, WIDTH).index_add_(0, data.batch, x)
        size = torch.bincount(data.batch, minlength=data.count).clamp(min=1)
        return self.head(total / size[:, None])


def loss_of(logits, y):
    known = ~torch.isnan(y)
    return F.binary_cross_entropy_with_logits(logits[known], y[known])


def main():
    torch.manual_seed(12)
    device = "cuda" if torch.cuda.is_available() else "cpu"
    train = DataLoader(Proteins(GRAPHS, 0), BATCH, shuffle=True, collate_fn=Batch, num_workers=5)
    val = DataLoader(Proteins(GRAPHS // 4, 1), EVAL_BATCH, collate_fn=Batch, num_workers=2)
    model = GIN().to(device)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    best = float("inf")
    for epoch in range(EPOCHS):
        model.train()
        for data in train:
            data = data.to(device)
            loss = loss_of(model(data), data.y)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        model.eval()
        with torch.no_grad():
            score = sum(
                loss_of(model(data), data.y).item() for data in (d.to(device) for d in val)
            ) / len(val)
        if score < best:
            best = score
            torch.save(model.state_dict(), "gin_best.pt")
        print(f"epoch {epoch}: train {loss.item():.4f}, val {score:.4f}")
    model.load_state_dict(torch.load("gin_best.pt", map_location=device))


if __name__ == "__main__":
    main()
