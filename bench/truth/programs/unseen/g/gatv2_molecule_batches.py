"""GATv2 with edge features over batches of small graphs: regression of three targets, ReduceLROnPlateau, MAE."""

import random

import torch
from torch import nn
from torch_geometric.data import Data
from torch_geometric.loader import DataLoader
from torch_geometric.nn import GATv2Conv, GraphNorm, global_add_pool, global_mean_pool
from tqdm.auto import tqdm

HPARAMS = {
    "graphs": 12000,
    "hidden": 96,
    "heads": 8,
    "layers": 5,
    "batch_size": 512,
    "eval_batch_size": 1024,
    "lr": 1e-3,
    "epochs": 4,
    "targets": 3,
    "dropout": 0.1,
}
ATOMS, BONDS = 16, 5
device = "cuda"


def random_molecule(rng):
    n = rng.randint(9, 38)
    edges = [(i, rng.randrange(max(0, i - 3), i)) for i in range(1, n)]
    for _ in range(n // 6):
        a, b = rng.sample(range(n), 2)
        edges.append((a, b))
    bonds = [rng.randrange(BONDS) for _ in edges]
    src = [a for a, b in edges] + [b for a, b in edges]
    dst = [b for a, b in edges] + [a for a, b in edges]
    z = torch.tensor([rng.randrange(ATOMS) for _ in range(n)])
    bonds = torch.tensor(bonds + bonds)
    y = torch.stack([z.float().mean(), bonds.float().sum() / 10, torch.tensor(n / 10.0)])
    return Data(z=z, edge_index=torch.tensor([src, dst]), bond=bonds, y=y[None], num_nodes=n)


class Block(nn.Module):
    def __init__(self, hidden, heads, dropout):
        super().__init__()
        self.conv = GATv2Conv(
            hidden, hidden, heads=heads, concat=True, edge_dim=hidden, dropout=dropout
        )
        self.proj = nn.Linear(hidden * heads, hidden)
        self.norm1 = GraphNorm(hidden)
        self.ff = nn.Sequential(
            nn.Linear(hidden, 4 * hidden), nn.GELU(), nn.Linear(4 * hidden, hidden)
        )
        self.norm2 = GraphNorm(hidden)

    def forward(self, x, edge_index, edge_attr, batch):
        x = x + self.proj(self.conv(self.norm1(x, batch), edge_index, edge_attr))
        return x + self.ff(self.norm2(x, batch))


class Net(nn.Module):
    def __init__(self, hp):
        super().__init__()
        h = hp["hidden"]
        self.atom = nn.Embedding(ATOMS, h)
        self.bond = nn.Embedding(BONDS, h)
        self.blocks = nn.ModuleList(
            [Block(h, hp["heads"], hp["dropout"]) for _ in range(hp["layers"])]
        )
        self.head = nn.Sequential(
            nn.Linear(2 * h, h), nn.ReLU(), nn.Dropout(hp["dropout"]), nn.Linear(h, hp["targets"])
        )

    def forward(self, data):
        x, e = self.atom(data.z), self.bond(data.bond)
        for block in self.blocks:
            x = block(x, data.edge_index, e, data.batch)
        pooled = torch.cat(
            [global_mean_pool(x, data.batch), global_add_pool(x, data.batch) / 20], dim=-1
        )
        return self.head(pooled)


def run_epoch(model, loader, mean, std, optimizer=None):
    train = optimizer is not None
    model.train(train)
    abs_err = torch.zeros(HPARAMS["targets"], device=device)
    seen, running = 0, 0.0
    with torch.set_grad_enabled(train):
        for step, data in enumerate(tqdm(loader, leave=False, disable=not train, mininterval=5)):
            data = data.to(device)
            target = (data.y - mean) / std
            pred = model(data)
            loss = nn.functional.huber_loss(pred, target)
            if train:
                optimizer.zero_grad(set_to_none=True)
                loss.backward()
                torch.nn.utils.clip_grad_value_(model.parameters(), 1.0)
                optimizer.step()
            abs_err += ((pred - target).abs() * std).sum(0).detach()
            seen += data.num_graphs
            running += loss.item() * data.num_graphs
    return running / seen, (abs_err / seen).tolist()


def main():
    rng = random.Random(0)
    torch.manual_seed(0)
    dataset = [random_molecule(rng) for _ in range(HPARAMS["graphs"])]
    cut = int(0.85 * len(dataset))
    train_set, val_set = dataset[:cut], dataset[cut:]
    ys = torch.cat([d.y for d in train_set])
    mean, std = ys.mean(0).to(device), ys.std(0).to(device)
    train_loader = DataLoader(train_set, batch_size=HPARAMS["batch_size"], shuffle=True)
    val_loader = DataLoader(val_set, batch_size=HPARAMS["eval_batch_size"])

    model = Net(HPARAMS).to(device)
    optimizer = torch.optim.AdamW(
        model.parameters(), lr=HPARAMS["lr"], weight_decay=1e-4, amsgrad=True
    )
    scheduler = torch.optim.lr_scheduler.ReduceLROnPlateau(
        optimizer, factor=0.5, patience=1, min_lr=1e-5
    )
    best = float("inf")
    for epoch in range(HPARAMS["epochs"]):
        loss, _ = run_epoch(model, train_loader, mean, std, optimizer)
        val_loss, mae = run_epoch(model, val_loader, mean, std)
        scheduler.step(val_loss)
        flag = "*" if val_loss < best else ""
        best = min(best, val_loss)
        print(
            f"epoch {epoch} train {loss:.4f} val {val_loss:.4f}{flag} mae",
            ["%.3f" % m for m in mae],
        )


main()
