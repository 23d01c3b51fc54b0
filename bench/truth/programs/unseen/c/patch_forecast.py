"""Forecasts of many series with a transformer over patches: reversible norm, averaged model, quantile loss, YAML."""

import copy
import sys
from dataclasses import dataclass

import torch
import yaml
from torch import nn
from torch.optim.swa_utils import AveragedModel, get_ema_multi_avg_fn
from torch.utils.data import DataLoader, Dataset

DEFAULTS = """
series: 48
points: 4000
context: 512
horizon: 96
patch: 16
dim: 256
depth: 6
batch: 64
eval_batch: 160
epochs: 2
stride: 5
lr: 0.0003
quantiles: [0.1, 0.5, 0.9]
"""


@dataclass
class Config:
    series: int
    points: int
    context: int
    horizon: int
    patch: int
    dim: int
    depth: int
    batch: int
    eval_batch: int
    epochs: int
    stride: int
    lr: float
    quantiles: list

    @classmethod
    def read(cls, overrides):
        values = yaml.safe_load(DEFAULTS)
        for word in overrides:
            key, value = word.split("=", 1)
            values[key] = yaml.safe_load(value)
        return cls(**values)


class Windows(Dataset):
    def __init__(self, table, c):
        self.table, self.c = table, c

    def __len__(self):
        return (len(self.table) - self.c.context - self.c.horizon) // self.c.stride

    def __getitem__(self, i):
        i *= self.c.stride
        middle = i + self.c.context
        return self.table[i:middle].T, self.table[middle : middle + self.c.horizon].T


class PatchForecaster(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.c = c
        count = c.context // c.patch
        self.embed = nn.Linear(c.patch, c.dim)
        self.pos = nn.Parameter(torch.zeros(count, c.dim))
        layer = nn.TransformerEncoderLayer(
            c.dim,
            8,
            2 * c.dim,
            0.2,
            activation="gelu",
            batch_first=True,
            norm_first=True,
        )
        self.body = nn.TransformerEncoder(layer, c.depth, enable_nested_tensor=False)
        self.head = nn.Sequential(
            nn.Flatten(-2),
            nn.Dropout(0.1),
            nn.Linear(count * c.dim, c.horizon * len(c.quantiles)),
        )

    def forward(self, x):
        b, n, _ = x.shape
        mean, std = x.mean(-1, keepdim=True), x.std(-1, keepdim=True) + 1e-5
        x = ((x - mean) / std).reshape(b * n, -1, self.c.patch)
        y = self.head(self.body(self.embed(x) + self.pos))
        y = y.view(b, n, self.c.horizon, -1)
        return y * std[..., None] + mean[..., None]


def pinball(guess, truth, quantiles):
    q = torch.tensor(quantiles, device=guess.device)
    error = truth[..., None] - guess
    return torch.maximum(q * error, (q - 1) * error).mean()


def make_table(c):
    g = torch.Generator().manual_seed(8)
    t = torch.arange(c.points)[:, None].float()
    period = torch.randint(24, 168, (1, c.series), generator=g).float()
    noise = torch.randn(c.points, c.series, generator=g)
    return torch.sin(6.283 * t / period) + 0.002 * t + 0.2 * noise.cumsum(0) * 0.1


def main():
    c = Config.read(sys.argv[1:])
    torch.manual_seed(8)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    table = make_table(c)
    cut = int(c.points * 0.75)
    train = DataLoader(
        Windows(table[:cut], c), c.batch, shuffle=True, drop_last=True, num_workers=2
    )
    val = DataLoader(Windows(table[cut - c.context :], c), c.eval_batch)
    model = PatchForecaster(c).to(device)
    average = AveragedModel(model, multi_avg_fn=get_ema_multi_avg_fn(0.99))
    optimizer = torch.optim.NAdam(model.parameters(), lr=c.lr, decoupled_weight_decay=True)
    best, kept = float("inf"), None
    for epoch in range(c.epochs):
        model.train()
        for past, future in train:
            past, future = past.to(device), future.to(device)
            loss = pinball(model(past), future, c.quantiles)
            optimizer.zero_grad()
            loss.backward()
            nn.utils.clip_grad_value_(model.parameters(), 0.5)
            optimizer.step()
            average.update_parameters(model)
        average.eval()
        scores = []
        with torch.inference_mode():
            for past, future in val:
                guess = average(past.to(device))
                scores.append(pinball(guess, future.to(device), c.quantiles).item())
        score = sum(scores) / len(scores)
        print(f"epoch {epoch}: train {loss.item():.4f} val {score:.4f}")
        if score < best:
            best, kept = score, copy.deepcopy(average.module.state_dict())
    torch.save({"config": vars(c), "model": kept}, "forecaster.pt")


if __name__ == "__main__":
    main()
