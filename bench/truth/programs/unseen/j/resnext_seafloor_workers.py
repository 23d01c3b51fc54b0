#!/usr/bin/env python
"""Seafloor pictures, ResNeXt-50, a DataLoader with four workers and pinned memory, validation each epoch."""

import random
import time

import numpy as np
import torch
import torchvision
from torch import nn
from torch.utils.data import DataLoader, Dataset
from torchvision.transforms import v2

NUM_CLASSES = 21
SIZE = 224
RAW = 256


class Seafloor(Dataset):
    """Pictures are made from a low-resolution noise map, one seed for each picture."""

    def __init__(self, n, train, size=SIZE, raw=RAW):
        self.n = n
        self.raw = raw
        self.train = train
        if train:
            crop = [v2.RandomCrop(size), v2.RandomHorizontalFlip(), v2.RandomVerticalFlip()]
        else:
            crop = [v2.CenterCrop(size)]
        self.transform = v2.Compose(
            crop
            + [
                v2.ToDtype(torch.float32, scale=True),
                v2.Normalize(mean=[0.3, 0.4, 0.45], std=[0.2, 0.2, 0.2]),
            ]
        )

    def __len__(self):
        return self.n

    def __getitem__(self, i):
        rng = np.random.default_rng(i + (0 if self.train else 10**6))
        small = rng.integers(0, 256, (3, 16, 16), dtype=np.uint8)
        image = np.kron(small, np.ones((1, self.raw // 16, self.raw // 16), dtype=np.uint8))
        label = int(small.sum()) % NUM_CLASSES
        return self.transform(torch.from_numpy(image)), label


def seed_worker(worker_id):
    s = torch.initial_seed() % 2**32
    np.random.seed(s)
    random.seed(s)


def run_epoch(model, loader, criterion, device, optimizer=None):
    training = optimizer is not None
    model.train(training)
    seen, correct, total_loss = 0, 0, 0.0
    with torch.set_grad_enabled(training):
        for images, target in loader:
            images = images.to(device, non_blocking=True)
            target = target.to(device, non_blocking=True)
            output = model(images)
            loss = criterion(output, target)
            if training:
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
            seen += len(target)
            correct += (output.argmax(1) == target).sum().item()
            total_loss += loss.item() * len(target)
    return total_loss / seen, correct / seen


def main(n_train=660, n_val=200, batch=64, epochs=2, workers=4):
    random.seed(0)
    np.random.seed(0)
    torch.manual_seed(0)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")

    g = torch.Generator()
    g.manual_seed(0)
    common = dict(
        batch_size=batch,
        num_workers=workers,
        pin_memory=device.type == "cuda",
        worker_init_fn=seed_worker,
        generator=g,
    )
    train_loader = DataLoader(
        Seafloor(n_train, True), shuffle=True, persistent_workers=workers > 0, **common
    )
    val_loader = DataLoader(Seafloor(n_val, False), shuffle=False, **common)

    model = torchvision.models.resnext50_32x4d(weights=None, num_classes=NUM_CLASSES).to(device)
    criterion = nn.CrossEntropyLoss()
    optimizer = torch.optim.SGD(
        model.parameters(), lr=0.02, momentum=0.9, nesterov=True, weight_decay=5e-5
    )
    scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, epochs)

    for epoch in range(epochs):
        t0 = time.time()
        train_loss, train_acc = run_epoch(model, train_loader, criterion, device, optimizer)
        val_loss, val_acc = run_epoch(model, val_loader, criterion, device)
        scheduler.step()
        print(
            f"epoch {epoch}: train {train_loss:.3f}/{train_acc:.3f} val {val_loss:.3f}/{val_acc:.3f} "
            f"({time.time() - t0:.1f}s)"
        )


if __name__ == "__main__":
    main()
