"""VGG16-BN: first the classifier on frozen features, then everything at a small rate."""

import random

import numpy as np
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset, random_split
from torchvision import models

SEED = 99
CLASSES = 25
BATCH = 56
VAL_BATCH = 128
SAMPLES = 700
SIZE = 224
WORKERS = 2

random.seed(SEED)
np.random.seed(SEED)
torch.manual_seed(SEED)
device = torch.device("cuda")


class Bridges(Dataset):
    def __init__(self, n):
        rng = np.random.default_rng(SEED)
        self.images = rng.integers(0, 256, size=(32, SIZE, SIZE, 3), dtype=np.uint8)
        self.targets = rng.integers(0, CLASSES, size=n)

    def __len__(self):
        return len(self.targets)

    def __getitem__(self, i):
        a = self.images[i % 32]
        a = np.roll(a, i % 17, axis=1)
        t = torch.from_numpy(np.ascontiguousarray(a.transpose(2, 0, 1))).float() / 255.0
        return t, int(self.targets[i])


def evaluate(model, loader):
    model.eval()
    correct = n = 0
    confusion = torch.zeros(CLASSES, CLASSES, dtype=torch.long, device=device)
    with torch.no_grad():
        for x, y in loader:
            x, y = x.to(device), y.to(device)
            pred = model(x).argmax(1)
            confusion += torch.bincount(y * CLASSES + pred, minlength=CLASSES**2).view(
                CLASSES, CLASSES
            )
            correct += (pred == y).sum().item()
            n += len(y)
    recall = confusion.diag() / confusion.sum(1).clamp(min=1)
    return correct / n, recall.mean().item()


def train_stage(name, model, loader, val, optimizer, epochs, freeze_bn):
    criterion = nn.CrossEntropyLoss()
    for epoch in range(epochs):
        model.train()
        if freeze_bn:
            model.features.eval()
        for i, (x, y) in enumerate(loader):
            x, y = x.to(device, non_blocking=True), y.to(device, non_blocking=True)
            optimizer.zero_grad()
            loss = criterion(model(x), y)
            loss.backward()
            optimizer.step()
            if i % 4 == 0:
                print(f"{name} epoch {epoch} it {i} loss {loss.item():.3f}")
        acc, recall = evaluate(model, val)
        print(f"{name} epoch {epoch}: val acc {acc:.3f} mean recall {recall:.3f}")


def main():
    data = Bridges(SAMPLES)
    n_val = SAMPLES // 4
    train_set, val_set = random_split(data, [SAMPLES - n_val, n_val])
    loader = DataLoader(
        train_set, BATCH, shuffle=True, num_workers=WORKERS, pin_memory=True, drop_last=True
    )
    val = DataLoader(val_set, VAL_BATCH, num_workers=WORKERS, pin_memory=True)

    model = models.vgg16_bn(weights=None)
    model.classifier[-1] = nn.Linear(4096, CLASSES)
    model.to(device)

    for p in model.features.parameters():
        p.requires_grad = False
    head = torch.optim.Adam(model.classifier.parameters(), lr=1e-4)
    train_stage("head", model, loader, val, head, epochs=1, freeze_bn=True)

    for p in model.features.parameters():
        p.requires_grad = True
    full = torch.optim.SGD(
        [
            {"params": model.features.parameters(), "lr": 1e-4},
            {"params": model.classifier.parameters(), "lr": 1e-3},
        ],
        momentum=0.9,
        weight_decay=5e-4,
    )
    train_stage("full", model, loader, val, full, epochs=1, freeze_bn=False)
    torch.save(model.state_dict(), "vgg_bridges.pth")


if __name__ == "__main__":
    main()
