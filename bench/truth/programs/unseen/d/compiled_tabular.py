"""FT-Transformer on a table that lies on the GPU: the model compiled in place, larger batches to validate, patience."""

import argparse
import copy

import torch
import torch.nn.functional as F
from torch import nn


class Tokenizer(nn.Module):
    """One token for each column, and one that is read at the end."""

    def __init__(self, numeric, categories, width):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(numeric, width) * 0.02)
        self.bias = nn.Parameter(torch.zeros(numeric + len(categories), width))
        offsets = torch.tensor([0, *categories[:-1]]).cumsum(0)
        self.register_buffer("offsets", offsets)
        self.embed = nn.Embedding(sum(categories), width)
        self.cls = nn.Parameter(torch.randn(1, 1, width) * 0.02)

    def forward(self, x, c):
        tokens = (
            torch.cat([x[..., None] * self.weight, self.embed(c + self.offsets)], 1) + self.bias
        )
        return torch.cat([self.cls.expand(len(x), -1, -1), tokens], 1)


class Layer(nn.Module):
    def __init__(self, width, heads, dropout):
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        hidden = width * 4 // 3 * 2
        self.up, self.down = nn.Linear(width, hidden), nn.Linear(hidden // 2, width)
        self.heads, self.dropout = heads, dropout

    def forward(self, x):
        b, t, w = x.shape
        q, k, v = self.qkv(self.norm1(x)).view(b, t, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        y = F.scaled_dot_product_attention(q, k, v, dropout_p=self.dropout * self.training)
        x = x + self.out(y.transpose(1, 2).reshape(b, t, w))
        gate, value = self.up(self.norm2(x)).chunk(2, -1)
        return x + self.down(F.dropout(F.relu(gate) * value, self.dropout, self.training))


class FTTransformer(nn.Module):
    def __init__(self, numeric, categories, width, depth, heads, classes, dropout=0.1):
        super().__init__()
        self.tokens = Tokenizer(numeric, categories, width)
        self.layers = nn.Sequential(*[Layer(width, heads, dropout) for _ in range(depth)])
        self.head = nn.Sequential(nn.LayerNorm(width), nn.ReLU(), nn.Linear(width, classes))

    def forward(self, x, c):
        return self.head(self.layers(self.tokens(x, c))[:, 0])


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--rows", type=int, default=60_000)
    p.add_argument("--numeric", type=int, default=40)
    p.add_argument("--width", type=int, default=192)
    p.add_argument("--depth", type=int, default=4)
    p.add_argument("--batch", type=int, default=2048)
    p.add_argument("--eval-batch", type=int, default=8192)
    p.add_argument("--epochs", type=int, default=3)
    p.add_argument("--patience", type=int, default=8)
    p.add_argument("--eager", action="store_true")
    a = p.parse_args()
    torch.manual_seed(0)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    categories = [12, 7, 50, 3, 24]
    x = torch.randn(a.rows, a.numeric)
    c = torch.stack([torch.randint(0, n, (a.rows,)) for n in categories], 1)
    y = ((x[:, :5].sum(1) + 0.3 * c[:, 0]) > 1.5).long() + (x[:, 5] > 0.8).long()
    x, c, y = x.to(device), c.to(device), y.to(device)
    cut = int(a.rows * 0.7)
    mean, std = x[:cut].mean(0), x[:cut].std(0)
    x = (x - mean) / std
    model = FTTransformer(a.numeric, categories, a.width, a.depth, 8, 3).to(device)
    if not a.eager:
        model.compile()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, weight_decay=1e-5)
    best, kept, waited = 0.0, None, 0
    for epoch in range(a.epochs):
        model.train()
        order = torch.randperm(cut, device=device)
        for rows in order.split(a.batch):
            optimizer.zero_grad()
            loss = F.cross_entropy(model(x[rows], c[rows]), y[rows])
            loss.backward()
            optimizer.step()
        model.eval()
        with torch.no_grad():
            parts = [
                model(x[i : i + a.eval_batch], c[i : i + a.eval_batch]).argmax(1)
                for i in range(cut, a.rows, a.eval_batch)
            ]
        score = (torch.cat(parts) == y[cut:]).float().mean().item()
        print(f"epoch {epoch}: loss {loss.item():.4f}, right {score:.4f}")
        if score > best:
            best, kept, waited = score, copy.deepcopy(model.state_dict()), 0
        else:
            waited += 1
        if waited > a.patience:
            break
    if kept is not None:
        model.load_state_dict(kept)
    torch.save(model.state_dict(), "ft.pt")


if __name__ == "__main__":
    main()
