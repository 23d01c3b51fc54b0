"""Twelve trials in one process: widths, depths and batches of a small text classifier drawn at random."""

import json
import os
import random

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset, random_split

TRIALS = int(os.environ.get("TRIALS", "12"))
ROWS = int(os.environ.get("ROWS", "6000"))
LENGTH = int(os.environ.get("LENGTH", "192"))
SCALE = int(os.environ.get("SCALE", "128"))
STEPS = int(os.environ.get("STEPS", "25"))
VOCABULARY = 20_000
device = "cuda" if torch.cuda.is_available() else "cpu"


def suggest(rng):
    return {
        "width": rng.choice([1, 2, 4, 6]) * SCALE,
        "layers": rng.randint(2, 6),
        "batch_size": rng.choice([32, 64, 96, 128]),
        "dropout": rng.uniform(0.0, 0.4),
        "lr": 10 ** rng.uniform(-4.5, -3),
        "optimizer": rng.choice(["adam", "adamw", "sgd", "rmsprop"]),
        "pooling": rng.choice(["mean", "max", "first"]),
    }


class Classifier(nn.Module):
    def __init__(self, width, layers, dropout, pooling):
        super().__init__()
        self.embed = nn.Embedding(VOCABULARY, width, padding_idx=0)
        self.position = nn.Parameter(torch.randn(LENGTH, width) * 0.02)
        layer = nn.TransformerEncoderLayer(width, 8, 4 * width, dropout, batch_first=True)
        self.encoder = nn.TransformerEncoder(layer, layers, enable_nested_tensor=False)
        self.head = nn.Sequential(nn.LayerNorm(width), nn.Dropout(dropout), nn.Linear(width, 2))
        self.pooling = pooling

    def forward(self, ids):
        h = self.encoder(self.embed(ids) + self.position)
        if self.pooling == "mean":
            h = h.mean(1)
        elif self.pooling == "max":
            h = h.max(1).values
        else:
            h = h[:, 0]
        return self.head(h)


def make_optimizer(name, parameters, lr):
    if name == "sgd":
        return torch.optim.SGD(parameters, lr=lr * 50, momentum=0.9)
    kinds = {
        "adam": torch.optim.Adam,
        "adamw": torch.optim.AdamW,
        "rmsprop": torch.optim.RMSprop,
    }
    return kinds[name](parameters, lr=lr)


def objective(params, train, valid, best):
    model = Classifier(params["width"], params["layers"], params["dropout"], params["pooling"]).to(
        device
    )
    optimizer = make_optimizer(params["optimizer"], model.parameters(), params["lr"])
    loader = DataLoader(train, batch_size=params["batch_size"], shuffle=True)
    for step, (ids, labels) in enumerate(loader):
        loss = nn.functional.cross_entropy(model(ids.to(device)), labels.to(device))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if step == STEPS // 2 and loss.item() > 4 * best + 2:
            return None
        if step >= STEPS:
            break
    model.eval()
    total = right = 0
    with torch.inference_mode():
        for ids, labels in DataLoader(valid, batch_size=256):
            guess = model(ids.to(device)).argmax(1).cpu()
            right += (guess == labels).sum().item()
            total += len(labels)
    return 1 - right / total


def main():
    torch.manual_seed(0)
    rng = random.Random(7)
    ids = torch.randint(1, VOCABULARY, (ROWS, LENGTH))
    data = TensorDataset(ids, (ids[:, :16].float().mean(1) > VOCABULARY / 2).long())
    train, valid = random_split(data, [0.85, 0.15])
    history, best = [], 1.0
    for number in range(TRIALS):
        params = suggest(rng)
        error = objective(params, train, valid, best)
        history.append({"trial": number, "error": error, **params})
        print(f"trial {number}: {'pruned' if error is None else f'{error:.3f}'} {params}")
        if error is not None and error < best:
            best = error
    with open("trials.json", "w") as f:
        json.dump(history, f, indent=2)
    print(f"best error {best:.3f}")


if __name__ == "__main__":
    main()
