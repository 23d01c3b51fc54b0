"""PNA on superpixel graphs (MNIST/CIFAR-superpixel style) with torch-geometric mini-batches."""

import random

import torch
import torch.nn.functional as F
from torch.nn import BatchNorm1d, Embedding, Linear, ModuleList, ReLU, Sequential
from torch_geometric.data import Data
from torch_geometric.loader import DataLoader
from torch_geometric.nn import PNAConv, global_mean_pool
from torch_geometric.utils import degree

random.seed(21)
torch.manual_seed(21)
device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
GRAPHS, BATCH, HIDDEN, LAYERS, K = 900, 160, 96, 4, 8


def superpixel_graph():
    n = random.randint(85, 150)
    pos = torch.rand(n, 2)
    dist = torch.cdist(pos, pos)
    dist.fill_diagonal_(9)
    d, nbr = dist.topk(K, largest=False)
    src = nbr.flatten()
    dst = torch.arange(n).repeat_interleave(K)
    bins = (d.flatten() * 40).long().clamp(max=15)
    return Data(
        x=torch.cat([torch.rand(n, 3), pos], 1),
        edge_index=torch.stack([src, dst]),
        edge_attr=bins,
        y=torch.tensor([random.randrange(10)]),
    )


graphs = [superpixel_graph() for _ in range(GRAPHS)]
cut = int(0.8 * GRAPHS)
train_loader = DataLoader(graphs[:cut], batch_size=BATCH, shuffle=True)
val_loader = DataLoader(graphs[cut:], batch_size=2 * BATCH)

deg = torch.zeros(64, dtype=torch.long)
for g in graphs[:cut]:
    d = degree(g.edge_index[1], num_nodes=g.num_nodes, dtype=torch.long)
    deg += torch.bincount(d, minlength=deg.numel())


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.node = Linear(5, HIDDEN)
        self.edge = Embedding(16, 48)
        self.convs, self.norms = ModuleList(), ModuleList()
        for _ in range(LAYERS):
            self.convs.append(
                PNAConv(
                    HIDDEN,
                    HIDDEN,
                    aggregators=["mean", "min", "max", "std"],
                    scalers=["identity", "amplification", "attenuation"],
                    deg=deg,
                    edge_dim=48,
                    towers=4,
                    pre_layers=1,
                    post_layers=1,
                    divide_input=False,
                )
            )
            self.norms.append(BatchNorm1d(HIDDEN))
        self.mlp = Sequential(Linear(HIDDEN, 64), ReLU(), Linear(64, 10))

    def forward(self, data):
        x, e = self.node(data.x), self.edge(data.edge_attr)
        for conv, norm in zip(self.convs, self.norms):
            x = x + F.relu(norm(conv(x, data.edge_index, e)))
        return self.mlp(global_mean_pool(x, data.batch))


model = Net().to(device)
optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
scheduler = torch.optim.lr_scheduler.ReduceLROnPlateau(
    optimizer, mode="min", factor=0.5, patience=2, min_lr=1e-5
)


def train():
    model.train()
    total = 0
    for data in train_loader:
        data = data.to(device)
        optimizer.zero_grad()
        loss = F.cross_entropy(model(data), data.y)
        loss.backward()
        total += loss.item() * data.num_graphs
        optimizer.step()
    return total / cut


@torch.no_grad()
def test(loader):
    model.eval()
    loss = correct = count = 0
    for data in loader:
        data = data.to(device)
        out = model(data)
        loss += F.cross_entropy(out, data.y, reduction="sum").item()
        correct += int((out.argmax(-1) == data.y).sum())
        count += data.num_graphs
    return loss / count, correct / count


for epoch in range(1, 4):
    train_loss = train()
    val_loss, val_acc = test(val_loader)
    scheduler.step(val_loss)
    print(f"Epoch: {epoch:02d}, Loss: {train_loss:.4f}, Val: {val_loss:.4f}, Acc: {val_acc:.3f}")
torch.save(model.state_dict(), "pna.pt")
