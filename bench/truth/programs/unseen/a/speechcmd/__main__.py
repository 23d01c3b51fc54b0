"""Train the keyword spotter on waves of sine and noise."""

import argparse
import dataclasses
import json
import math
import pathlib

import torch
from torch.nn import functional as F
from torch.utils.data import DataLoader, Dataset

from .model import KeywordSpotter, ModelConfig


class Tones(Dataset):
    def __init__(self, count, seconds, classes, rate=16_000):
        self.count, self.samples, self.classes, self.rate = (
            count,
            int(seconds * rate),
            classes,
            rate,
        )

    def __len__(self):
        return self.count

    def __getitem__(self, index):
        label = index % self.classes
        t = torch.arange(self.samples) / self.rate
        return torch.sin(2 * math.pi * (200 + 40 * label) * t) + 0.1 * torch.randn(
            self.samples
        ), label


def train_epoch(model, loader, optimizer, device, log_every=5):
    model.train()
    for i, (waves, labels) in enumerate(loader):
        waves, labels = waves.to(device), labels.to(device)
        loss = F.cross_entropy(model(waves), labels)
        optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 2.0)
        optimizer.step()
        if i % log_every == 0:
            print(f"  {i}/{len(loader)} {loss.item():.4f}")


def evaluate(model, loader, device):
    model.eval()
    confusion = torch.zeros(model.config.classes, model.config.classes, dtype=torch.long)
    with torch.no_grad():
        for waves, labels in loader:
            guess = model(waves.to(device)).argmax(1).cpu()
            for a, b in zip(labels, guess, strict=True):
                confusion[a, b] += 1
    return confusion.diag().sum().item() / confusion.sum().item()


def main():
    parser = argparse.ArgumentParser(prog="speechcmd")
    for item in dataclasses.fields(ModelConfig):
        parser.add_argument(f"--{item.name}", type=type(item.default), default=item.default)
    parser.add_argument("--count", type=int, default=1600)
    parser.add_argument("--seconds", type=float, default=1.0)
    parser.add_argument("--batch", type=int, default=128)
    parser.add_argument("--epochs", type=int, default=2)
    args = vars(parser.parse_args())
    config = ModelConfig(**{f.name: args[f.name] for f in dataclasses.fields(ModelConfig)})
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    torch.manual_seed(21)
    train = DataLoader(
        Tones(args["count"], args["seconds"], config.classes),
        args["batch"],
        shuffle=True,
        num_workers=4,
    )
    test = DataLoader(Tones(args["count"] // 4, args["seconds"], config.classes), args["batch"] * 2)
    model = KeywordSpotter(config).to(device)
    optimizer = torch.optim.NAdam(model.parameters(), lr=3e-4)
    out = pathlib.Path("spotter")
    out.mkdir(exist_ok=True)
    (out / "config.json").write_text(json.dumps(dataclasses.asdict(config)), encoding="utf-8")
    for epoch in range(args["epochs"]):
        print(f"epoch {epoch}")
        train_epoch(model, train, optimizer, device)
        print(f"  accuracy {evaluate(model, test, device):.3f}")
        torch.save(model.state_dict(), out / f"epoch{epoch}.pt")


if __name__ == "__main__":
    main()
