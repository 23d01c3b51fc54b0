"""SAINT for loan default: column and inter-sample attention, denoising pre-training followed by fine-tuning."""

import torch
import torch.nn.functional as F
from torch import nn

device = "cuda" if torch.cuda.is_available() else "cpu"
ROWS, CAT, NUM, CARD = 12000, 9, 23, 40
DIM, HEADS, DEPTH = 32, 8, 4
BATCH, EVAL_BATCH = 2048, 1024
COLS = CAT + NUM + 1


class Mlp(nn.Sequential):
    def __init__(self, d, mult=4, p=0.1):
        super().__init__(
            nn.LayerNorm(d),
            nn.Linear(d, d * mult),
            nn.GELU(),
            nn.Dropout(p),
            nn.Linear(d * mult, d),
        )


class Attention(nn.Module):
    def __init__(self, dim, heads, head_dim):
        super().__init__()
        self.h = heads
        self.norm = nn.LayerNorm(dim)
        self.qkv = nn.Linear(dim, 3 * heads * head_dim, bias=False)
        self.out = nn.Linear(heads * head_dim, dim)

    def forward(self, x):
        b, n, _ = x.shape
        q, k, v = self.qkv(self.norm(x)).view(b, n, 3, self.h, -1).permute(2, 0, 3, 1, 4)
        att = (q @ k.transpose(-1, -2) * q.size(-1) ** -0.5).softmax(-1)
        att = F.dropout(att, 0.1, self.training)
        return self.out((att @ v).transpose(1, 2).reshape(b, n, -1))


class Saint(nn.Module):
    def __init__(self):
        super().__init__()
        self.cat = nn.Embedding(CAT * CARD, DIM)
        self.num = nn.ModuleList(
            nn.Sequential(nn.Linear(1, 100), nn.ReLU(), nn.Linear(100, DIM)) for _ in range(NUM)
        )
        self.cls = nn.Parameter(torch.zeros(1, 1, DIM))
        self.col, self.colm = nn.ModuleList(), nn.ModuleList()
        self.row, self.rowm = nn.ModuleList(), nn.ModuleList()
        for _ in range(DEPTH):
            self.col.append(Attention(DIM, HEADS, 16))
            self.colm.append(Mlp(DIM))
            self.row.append(Attention(DIM * COLS, HEADS, 64))
            self.rowm.append(Mlp(DIM * COLS, 2))
        self.register_buffer("shift", torch.arange(CAT) * CARD)
        self.head = nn.Sequential(
            nn.LayerNorm(DIM), nn.Linear(DIM, 128), nn.ReLU(), nn.Linear(128, 1)
        )
        self.denoise = nn.Linear(DIM * COLS, NUM)

    def forward(self, cat, num):
        x = torch.cat(
            [self.cls.expand(len(cat), -1, -1), self.cat(cat + self.shift)]
            + [m(num[:, i : i + 1])[:, None] for i, m in enumerate(self.num)],
            1,
        )
        for ca, cm, ra, rm in zip(self.col, self.colm, self.row, self.rowm):
            x = x + ca(x)
            x = x + cm(x)
            r = x.flatten(1)[None]  # the batch becomes the sequence
            r = r + ra(r)
            r = r + rm(r)
            x = r[0].view_as(x)
        return x


def auc(score, y):
    order = score.argsort()
    rank = torch.empty_like(score).scatter_(
        0, order, torch.arange(1, len(score) + 1, dtype=score.dtype)
    )
    pos = y.sum()
    return ((rank[y > 0.5].sum() - pos * (pos + 1) / 2) / (pos * (len(y) - pos))).item()


cat = torch.randint(0, CARD, (ROWS, CAT))
num = torch.randn(ROWS, NUM)
y = (num[:, 0] + 0.5 * num[:, 1] * num[:, 2] + 0.3 * torch.randn(ROWS) > 0.8).float()
test = slice(ROWS - 3000, ROWS)
model = Saint().to(device)
print("parameters", sum(p.numel() for p in model.parameters()))

# stage 1: denoising of shuffled (cutmix-like) numeric columns
opt = torch.optim.AdamW(model.parameters(), lr=1e-4)
for step in range(8):
    idx = torch.randint(0, ROWS - 3000, (BATCH,))
    c, n = cat[idx].to(device), num[idx].to(device)
    mask = torch.rand_like(n) < 0.3
    noisy = torch.where(mask, n[torch.randperm(BATCH, device=device)], n)
    loss = F.mse_loss(model.denoise(model(c, noisy).flatten(1)), n)
    opt.zero_grad()
    loss.backward()
    opt.step()
print(f"pre-training loss {loss.item():.3f}")

# stage 2
opt = torch.optim.AdamW(
    [
        {"params": model.head.parameters(), "lr": 1e-3},
        {
            "params": [
                p for k, p in model.named_parameters() if not k.startswith(("head", "denoise"))
            ]
        },
    ],
    lr=1e-4,
)
for epoch in range(2):
    model.train()
    perm = torch.randperm(ROWS - 3000)
    for idx in perm.split(BATCH):
        logit = model.head(model(cat[idx].to(device), num[idx].to(device))[:, 0]).squeeze(1)
        loss = F.binary_cross_entropy_with_logits(
            logit, y[idx].to(device), pos_weight=torch.tensor(2.0, device=device)
        )
        opt.zero_grad()
        loss.backward()
        opt.step()
    model.eval()
    with torch.no_grad():
        out = [
            model.head(model(c.to(device), n.to(device))[:, 0]).squeeze(1).cpu()
            for c, n in zip(cat[test].split(EVAL_BATCH), num[test].split(EVAL_BATCH))
        ]
    print(f"epoch {epoch} loss {loss.item():.3f} auc {auc(torch.cat(out), y[test]):.3f}")
torch.save(model.state_dict(), "saint.pt")
