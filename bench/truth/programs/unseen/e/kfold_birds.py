"""Bird calls in five folds in one process: a ResNet-34 on spectrograms, mixed precision, mixup, the folds' votes."""

import gc
import os

import numpy as np
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset, Subset
from torchvision.models import resnet34


class CFG:
    seed = 42
    n_folds = int(os.environ.get("FOLDS", "5"))
    clips = int(os.environ.get("CLIPS", "960"))
    mels = int(os.environ.get("MELS", "128"))
    frames = int(os.environ.get("FRAMES", "512"))
    classes = 152
    epochs = int(os.environ.get("EPOCHS", "1"))
    train_bs = int(os.environ.get("BATCH", "64"))
    valid_bs = 2 * train_bs
    lr = 1e-3
    workers = 2


device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
use_amp = device.type == "cuda"


class BirdDataset(Dataset):
    def __init__(self):
        rng = np.random.default_rng(CFG.seed)
        self.labels = rng.integers(0, CFG.classes, CFG.clips)

    def __len__(self):
        return CFG.clips

    def __getitem__(self, idx):
        rng = np.random.default_rng(idx)
        spec = rng.standard_normal((CFG.mels, CFG.frames), dtype=np.float32)
        spec[self.labels[idx] % CFG.mels] += 3.0
        return torch.from_numpy(spec).unsqueeze(0).repeat(3, 1, 1), int(self.labels[idx])


def mixup(x, y, alpha=0.4):
    lam = np.random.beta(alpha, alpha)
    perm = torch.randperm(x.size(0), device=x.device)
    return lam * x + (1 - lam) * x[perm], y, y[perm], lam


def train_fn(loader, model, criterion, optimizer, scheduler, scaler):
    model.train()
    losses = []
    for images, labels in loader:
        images, labels = images.to(device, non_blocking=True), labels.to(device)
        images, ya, yb, lam = mixup(images, labels)
        with torch.autocast(device.type, dtype=torch.float16, enabled=use_amp):
            out = model(images)
            loss = lam * criterion(out, ya) + (1 - lam) * criterion(out, yb)
        scaler.scale(loss).backward()
        scaler.unscale_(optimizer)
        torch.nn.utils.clip_grad_norm_(model.parameters(), 10.0)
        scaler.step(optimizer)
        scaler.update()
        optimizer.zero_grad()
        scheduler.step()
        losses.append(loss.item())
    return np.mean(losses)


def valid_fn(loader, model):
    model.eval()
    preds = []
    for images, _ in loader:
        with torch.no_grad():
            preds.append(model(images.to(device)).softmax(1).cpu().numpy())
    return np.concatenate(preds)


def main():
    torch.manual_seed(CFG.seed)
    np.random.seed(CFG.seed)
    dataset = BirdDataset()
    order = np.random.permutation(len(dataset))
    folds = np.array_split(order, CFG.n_folds)
    oof = np.zeros((len(dataset), CFG.classes))
    for fold, valid_idx in enumerate(folds):
        print(f"========== fold {fold} ==========")
        train_idx = np.setdiff1d(order, valid_idx)
        train_loader = DataLoader(
            Subset(dataset, train_idx),
            batch_size=CFG.train_bs,
            shuffle=True,
            num_workers=CFG.workers,
            pin_memory=use_amp,
            drop_last=True,
        )
        valid_loader = DataLoader(
            Subset(dataset, valid_idx), batch_size=CFG.valid_bs, num_workers=CFG.workers
        )
        model = resnet34(weights=None)
        model.fc = nn.Linear(model.fc.in_features, CFG.classes)
        model.to(device)
        optimizer = torch.optim.AdamW(model.parameters(), lr=CFG.lr, weight_decay=1e-2)
        scheduler = torch.optim.lr_scheduler.OneCycleLR(
            optimizer, max_lr=CFG.lr, total_steps=CFG.epochs * len(train_loader) + 1
        )
        scaler = torch.amp.GradScaler(device.type, enabled=use_amp)
        criterion = nn.CrossEntropyLoss(label_smoothing=0.05)
        for epoch in range(CFG.epochs):
            loss = train_fn(train_loader, model, criterion, optimizer, scheduler, scaler)
            oof[valid_idx] = valid_fn(valid_loader, model)
            accuracy = (oof[valid_idx].argmax(1) == dataset.labels[valid_idx]).mean()
            print(f"epoch {epoch + 1}: train loss {loss:.4f}, accuracy {accuracy:.4f}")
        torch.save(model.state_dict(), f"resnet34_fold{fold}.pth")
        del model, optimizer, scheduler
        gc.collect()
        torch.cuda.empty_cache()
    print(f"CV {(oof.argmax(1) == dataset.labels).mean():.4f}")


if __name__ == "__main__":
    main()
