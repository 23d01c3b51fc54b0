"""Which shop belongs to which trade: APPNP on one large co-visit graph (full batch), early stopping, dropout on the propagation."""

import copy

import torch
import torch.nn.functional as F
from torch.nn import BatchNorm1d, Dropout, Linear, ReLU, Sequential
from torch_geometric.data import Data
from torch_geometric.nn import APPNP
from torch_geometric.utils import add_self_loops, to_undirected

SHOPS = 120_000
LINKS = 1_000_000
FEATURES = 256
TRADES = 40
HIDDEN = 1024
HOPS = 10
ALPHA = 0.1
EPOCHS = 40
PATIENCE = 10


def co_visits():
    g = torch.Generator().manual_seed(4)
    trade = torch.randint(0, TRADES, (SHOPS,), generator=g)
    a = torch.randint(0, SHOPS, (LINKS,), generator=g)
    b = torch.randint(0, SHOPS, (LINKS,), generator=g)
    order = torch.argsort(trade)
    near = order[(torch.arange(LINKS) * 7 + torch.randint(0, 50, (LINKS,), generator=g)) % SHOPS]
    b = torch.where(torch.rand(LINKS, generator=g) < 0.5, near, b)
    edge_index = to_undirected(torch.stack([a, b]), num_nodes=SHOPS)
    edge_index, _ = add_self_loops(edge_index, num_nodes=SHOPS)
    x = torch.randn(SHOPS, FEATURES, generator=g)
    x[:, :TRADES] += F.one_hot(trade, TRADES).float()
    part = torch.rand(SHOPS, generator=g)
    return Data(
        x=x,
        edge_index=edge_index,
        y=trade,
        train_mask=part < 0.1,
        val_mask=(part >= 0.1) & (part < 0.2),
        test_mask=part >= 0.2,
    )


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.mlp = Sequential(
            Dropout(0.3),
            Linear(FEATURES, HIDDEN),
            BatchNorm1d(HIDDEN),
            ReLU(),
            Dropout(0.5),
            Linear(HIDDEN, HIDDEN // 2),
            ReLU(),
            Linear(HIDDEN // 2, TRADES),
        )
        self.propagate = APPNP(K=HOPS, alpha=ALPHA, dropout=0.1, add_self_loops=False)

    def forward(self, x, edge_index):
        return self.propagate(self.mlp(x), edge_index)


torch.manual_seed(4)
device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
data = co_visits().to(device)
model = Net().to(device)
optimizer = torch.optim.Adam(
    [
        {"params": model.mlp[1].parameters(), "weight_decay": 5e-3},
        {
            "params": [p for i in (2, 5, 7) for p in model.mlp[i].parameters()],
            "weight_decay": 0.0,
        },
    ],
    lr=0.01,
)

best, best_state, waited = 0.0, None, 0
for epoch in range(1, EPOCHS + 1):
    model.train()
    optimizer.zero_grad()
    out = model(data.x, data.edge_index)
    loss = F.cross_entropy(out[data.train_mask], data.y[data.train_mask])
    loss.backward()
    optimizer.step()

    model.eval()
    with torch.no_grad():
        guess = model(data.x, data.edge_index).argmax(-1)
    accuracy = (guess == data.y)[data.val_mask].float().mean().item()
    if accuracy > best:
        best, waited, best_state = accuracy, 0, copy.deepcopy(model.state_dict())
    else:
        waited += 1
    if epoch % 10 == 0:
        print(f"epoch {epoch} loss {loss.item():.4f} val {accuracy:.4f}")
    if waited >= PATIENCE:
        print("no better for", PATIENCE, "epochs, stopping")
        break

if best_state is not None:
    model.load_state_dict(best_state)
model.eval()
with torch.no_grad():
    guess = model(data.x, data.edge_index).argmax(-1)
print("test", (guess == data.y)[data.test_mask].float().mean().item())
