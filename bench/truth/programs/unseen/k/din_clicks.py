"""Deep Interest Network for click prediction: target attention over long histories, Dice activations, sparse embeddings with SparseAdam."""

import torch
from torch import nn

GOODS = 1_500_000
SHOPS = 120_000
CATEGORIES = 9_000
DIM = 64
HISTORY = 120
BATCH = 4096
STEPS = 30
EVAL_BATCH = 8192


class Dice(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.bn = nn.BatchNorm1d(dim, affine=False)
        self.alpha = nn.Parameter(torch.zeros(dim))

    def forward(self, x):
        shape = x.shape
        flat = x.reshape(-1, shape[-1])
        p = torch.sigmoid(self.bn(flat))
        return (p * flat + (1 - p) * self.alpha * flat).view(shape)


class Interest(nn.Module):
    """Weights every item of the history by how it relates to the candidate."""

    def __init__(self, dim):
        super().__init__()
        self.score = nn.Sequential(
            nn.Linear(4 * dim, 80),
            Dice(80),
            nn.Linear(80, 40),
            Dice(40),
            nn.Linear(40, 1),
        )

    def forward(self, candidate, history, mask):
        c = candidate[:, None].expand_as(history)
        w = self.score(torch.cat([c, history, c - history, c * history], dim=-1)).squeeze(-1)
        w = w.masked_fill(~mask, 0.0)
        return (w[..., None] * history).sum(1)


class DIN(nn.Module):
    def __init__(self):
        super().__init__()
        self.tables = nn.ModuleList(
            nn.Embedding(n, DIM, sparse=True) for n in (GOODS, SHOPS, CATEGORIES)
        )
        for t in self.tables:
            nn.init.normal_(t.weight, std=0.01)
        self.interest = Interest(3 * DIM)
        self.top = nn.Sequential(
            nn.Linear(9 * DIM, 512),
            Dice(512),
            nn.Linear(512, 128),
            Dice(128),
            nn.Linear(128, 1),
        )

    def embed(self, ids):
        return torch.cat([t(ids[..., i]) for i, t in enumerate(self.tables)], dim=-1)

    def forward(self, candidate, history, mask):
        c, h = self.embed(candidate), self.embed(history)
        interest = self.interest(c, h, mask)
        return self.top(torch.cat([c, interest, c * interest], dim=-1)).squeeze(-1)


def impressions(n, device):
    def draw(*shape):
        return torch.stack(
            [torch.randint(0, k, shape, device=device) for k in (GOODS, SHOPS, CATEGORIES)],
            dim=-1,
        )

    used = torch.randint(5, HISTORY + 1, (n, 1), device=device)
    mask = torch.arange(HISTORY, device=device)[None] < used
    return draw(n), draw(n, HISTORY), mask, (torch.rand(n, device=device) < 0.1).float()


torch.manual_seed(99)
device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
with device:
    model = DIN()
sparse = torch.optim.SparseAdam(list(model.tables.parameters()), lr=1e-3)
dense = torch.optim.Adam(
    [p for n, p in model.named_parameters() if not n.startswith("tables")], lr=1e-3
)
criterion = nn.BCEWithLogitsLoss()

for step in range(STEPS):
    candidate, history, mask, clicked = impressions(BATCH, device)
    loss = criterion(model(candidate, history, mask), clicked)
    sparse.zero_grad()
    dense.zero_grad()
    loss.backward()
    sparse.step()
    dense.step()
    if step % 10 == 0:
        print(f"step {step}: loss {loss.item():.5f}")

model.eval()
with torch.no_grad():
    candidate, history, mask, clicked = impressions(EVAL_BATCH, device)
    p = torch.sigmoid(model(candidate, history, mask))
    positive, negative = p[clicked == 1], p[clicked == 0]
    auc = (positive[:, None] > negative[None]).float().mean().item()
print(f"AUC {auc:.4f}")
