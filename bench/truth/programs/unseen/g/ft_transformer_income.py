"""FT-Transformer on a table (numbers and categories), fp16, early stopping on AUC, big evaluation batches."""

import math
import time
from typing import List

import numpy as np
import pandas as pd
import torch
from torch import Tensor, nn
from torch.amp import GradScaler, autocast
from torch.utils.data import DataLoader, TensorDataset

ROWS = 120_000
N_NUM = 28
CARDINALITIES = [9, 16, 7, 15, 6, 5, 2, 42, 120, 31, 12, 53]
D_TOKEN = 192
N_LAYERS = 4
N_HEADS = 8
BATCH_SIZE = 2048
EVAL_BATCH_SIZE = 8192
EPOCHS = 3
PATIENCE = 2
device = torch.device("cuda")


def make_frame(rows: int) -> pd.DataFrame:
    rng = np.random.default_rng(2024)
    frame = {f"num_{i}": rng.normal(size=rows).astype(np.float32) for i in range(N_NUM)}
    for i, card in enumerate(CARDINALITIES):
        frame[f"cat_{i}"] = rng.integers(0, card, rows)
    df = pd.DataFrame(frame)
    score = (
        df["num_0"] * df["num_1"]
        + 0.5 * df["num_2"]
        + 0.3 * (df["cat_0"] % 3)
        - 0.2 * (df["cat_7"] > 20)
    )
    df["income"] = (score + rng.normal(scale=0.5, size=rows) > 0.5).astype(int)
    return df


class Tokenizer(nn.Module):
    def __init__(self, n_num: int, cards: List[int], d: int):
        super().__init__()
        self.weight = nn.Parameter(torch.empty(n_num + 1, d))
        self.bias = nn.Parameter(torch.empty(n_num + len(cards), d))
        self.cat = nn.Embedding(sum(cards), d)
        self.register_buffer("offsets", torch.tensor([0] + cards[:-1]).cumsum(0))
        for p in (self.weight, self.bias, self.cat.weight):
            nn.init.kaiming_uniform_(p, a=math.sqrt(5))

    def forward(self, x_num: Tensor, x_cat: Tensor) -> Tensor:
        x_num = torch.cat([torch.ones(len(x_num), 1, device=x_num.device), x_num], dim=1)
        x = self.weight[None] * x_num[:, :, None]
        x = torch.cat([x, self.cat(x_cat + self.offsets[None])], dim=1)
        bias = torch.cat([torch.zeros(1, self.bias.shape[1], device=x.device), self.bias])
        return x + bias[None]


class MultiheadAttention(nn.Module):
    def __init__(self, d: int, heads: int, dropout: float):
        super().__init__()
        self.W_q, self.W_k, self.W_v, self.W_out = (nn.Linear(d, d) for _ in range(4))
        self.heads, self.dropout = heads, nn.Dropout(dropout)

    def _split(self, x: Tensor) -> Tensor:
        b, n, d = x.shape
        return (
            x.reshape(b, n, self.heads, d // self.heads)
            .transpose(1, 2)
            .reshape(b * self.heads, n, d // self.heads)
        )

    def forward(self, x_q: Tensor, x_kv: Tensor) -> Tensor:
        q, k, v = (
            self._split(self.W_q(x_q)),
            self._split(self.W_k(x_kv)),
            self._split(self.W_v(x_kv)),
        )
        attention = torch.softmax(q @ k.transpose(1, 2) / math.sqrt(k.shape[-1]), dim=-1)
        x = self.dropout(attention) @ v
        b = len(x_q)
        x = x.reshape(b, self.heads, -1, x.shape[-1]).transpose(1, 2).flatten(2)
        return self.W_out(x)


def reglu(x: Tensor) -> Tensor:
    a, b = x.chunk(2, dim=-1)
    return a * torch.relu(b)


class Layer(nn.Module):
    def __init__(self, d: int, heads: int):
        super().__init__()
        self.norm0, self.norm1 = nn.LayerNorm(d), nn.LayerNorm(d)
        self.attention = MultiheadAttention(d, heads, 0.2)
        hidden = int(d * 4 / 3)
        self.linear0, self.linear1 = nn.Linear(d, 2 * hidden), nn.Linear(hidden, d)
        self.dropout = nn.Dropout(0.1)

    def forward(self, x: Tensor, last: bool) -> Tensor:
        h = self.norm0(x)
        h = self.attention(h[:, :1] if last else h, h)
        x = (x[:, :1] if last else x) + h
        return x + self.linear1(self.dropout(reglu(self.linear0(self.norm1(x)))))


class FTTransformer(nn.Module):
    def __init__(self, n_num, cards, d, n_layers, heads):
        super().__init__()
        self.tokenizer = Tokenizer(n_num, cards, d)
        self.layers = nn.ModuleList([Layer(d, heads) for _ in range(n_layers)])
        self.last_normalization, self.head = nn.LayerNorm(d), nn.Linear(d, 1)

    def forward(self, x_num, x_cat):
        x = self.tokenizer(x_num, x_cat)
        for i, layer in enumerate(self.layers):
            x = layer(x, last=i + 1 == len(self.layers))
        return self.head(torch.relu(self.last_normalization(x[:, 0]))).squeeze(-1)


def roc_auc(y: np.ndarray, score: np.ndarray) -> float:
    ranks = pd.Series(score).rank().to_numpy()
    pos = y == 1
    return float((ranks[pos].sum() - pos.sum() * (pos.sum() + 1) / 2) / (pos.sum() * (~pos).sum()))


def loaders():
    df = make_frame(ROWS)
    num_cols = [c for c in df if c.startswith("num_")]
    cat_cols = [c for c in df if c.startswith("cat_")]
    n = len(df)
    parts = {
        "train": df.iloc[: int(n * 0.7)],
        "val": df.iloc[int(n * 0.7) : int(n * 0.85)],
        "test": df.iloc[int(n * 0.85) :],
    }
    mu, sd = parts["train"][num_cols].mean(), parts["train"][num_cols].std()
    out = {}
    for name, part in parts.items():
        ds = TensorDataset(
            torch.tensor(((part[num_cols] - mu) / sd).to_numpy(), dtype=torch.float32),
            torch.tensor(part[cat_cols].to_numpy()),
            torch.tensor(part["income"].to_numpy()),
        )
        out[name] = DataLoader(
            ds,
            batch_size=BATCH_SIZE if name == "train" else EVAL_BATCH_SIZE,
            shuffle=name == "train",
        )
    return out


@torch.no_grad()
def predict(model, loader):
    model.eval()
    scores, targets = [], []
    for x_num, x_cat, y in loader:
        with autocast("cuda", dtype=torch.float16):
            scores.append(model(x_num.to(device), x_cat.to(device)))
        targets.append(y)
    return torch.cat(targets).numpy(), torch.cat(scores).float().cpu().numpy()


def main():
    torch.manual_seed(0)
    dl = loaders()
    model = FTTransformer(N_NUM, CARDINALITIES, D_TOKEN, N_LAYERS, N_HEADS).to(device)
    no_decay = [
        p for n, p in model.named_parameters() if any(k in n for k in ("tokenizer", "norm", "bias"))
    ]
    decay = [
        p
        for n, p in model.named_parameters()
        if not any(k in n for k in ("tokenizer", "norm", "bias"))
    ]
    optimizer = torch.optim.AdamW(
        [{"params": decay, "weight_decay": 1e-5}, {"params": no_decay, "weight_decay": 0.0}],
        lr=1e-4,
    )
    scaler = GradScaler("cuda")
    best_auc, bad, best = 0.0, 0, None
    for epoch in range(EPOCHS):
        model.train()
        t0 = time.time()
        losses = []
        for it, (x_num, x_cat, y) in enumerate(dl["train"]):
            x_num, x_cat, y = x_num.to(device), x_cat.to(device), y.to(device)
            optimizer.zero_grad()
            with autocast("cuda", dtype=torch.float16):
                logits = model(x_num, x_cat)
                loss = nn.functional.binary_cross_entropy_with_logits(logits, y.to(logits.dtype))
            scaler.scale(loss).backward()
            scaler.step(optimizer)
            scaler.update()
            losses.append(loss.detach())
            if it % 20 == 0:
                print(
                    f"(epoch) {epoch} (batch) {it} (loss) {loss.item():.4f} (scale) {scaler.get_scale():.0f}"
                )
        auc = roc_auc(*predict(model, dl["val"]))
        print(
            f"epoch {epoch}: mean loss {torch.stack(losses).mean().item():.4f}, val AUC {auc:.4f}, {time.time() - t0:.1f}s"
        )
        if auc > best_auc:
            best_auc, bad = auc, 0
            best = {k: v.detach().cpu().clone() for k, v in model.state_dict().items()}
        else:
            bad += 1
        if bad >= PATIENCE:
            break
    model.load_state_dict(best)
    print("test AUC %.4f" % roc_auc(*predict(model, dl["test"])))


if __name__ == "__main__":
    main()
