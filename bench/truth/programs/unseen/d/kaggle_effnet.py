"""Leaf diseases, as a notebook does it: EfficientNet with GeM pooling, fp16, accumulation, folds, flips."""

import gc
import os
import time

import numpy as np
import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader, Dataset
from torchvision.models import efficientnet_b2
from tqdm.auto import tqdm


class CFG:
    seed = 42
    size = int(os.environ.get("SIZE", "256"))
    images = int(os.environ.get("IMAGES", "1100"))
    train_bs = int(os.environ.get("BS", "48"))
    valid_bs = train_bs * 2
    epochs = int(os.environ.get("EPOCHS", "2"))
    folds = (0, 1)
    n_fold = 5
    classes = 5
    accumulation = 2
    max_norm = 10.0
    lr = 1e-3
    workers = int(os.environ.get("WORKERS", "4"))
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")


class AverageMeter:
    def __init__(self):
        self.sum, self.count = 0.0, 0

    def update(self, value, n=1):
        self.sum += value * n
        self.count += n

    @property
    def avg(self):
        return self.sum / max(self.count, 1)


class LeafDataset(Dataset):
    def __init__(self, ids, labels, train):
        self.ids, self.labels, self.train = ids, labels, train

    def __len__(self):
        return len(self.ids)

    def __getitem__(self, i):
        rng = np.random.default_rng(int(self.ids[i]))
        small = torch.from_numpy(rng.random((1, 3, 16, 16), dtype=np.float32))
        image = F.interpolate(small, size=(CFG.size, CFG.size), mode="bicubic")[0]
        image[int(self.labels[i]) % 3] += 0.3
        if self.train and np.random.random() < 0.5:
            image = image.flip(-1)
        return (image - 0.5) / 0.25, int(self.labels[i])


class GeM(nn.Module):
    def __init__(self, p=3.0, eps=1e-6):
        super().__init__()
        self.p, self.eps = nn.Parameter(torch.ones(1) * p), eps

    def forward(self, x):
        x = x.float().clamp(min=self.eps).pow(self.p)
        return F.avg_pool2d(x, (x.size(-2), x.size(-1))).pow(1.0 / self.p).flatten(1)


class LeafModel(nn.Module):
    def __init__(self):
        super().__init__()
        self.backbone = efficientnet_b2(weights=None).features
        self.pool = GeM()
        self.head = nn.Sequential(nn.Dropout(0.3), nn.Linear(1408, CFG.classes))

    def forward(self, x):
        return self.head(self.pool(self.backbone(x)))


def train_fn(loader, model, criterion, optimizer, scheduler, scaler):
    model.train()
    losses = AverageMeter()
    for step, (images, labels) in enumerate(tqdm(loader, disable=True)):
        images = images.to(CFG.device, non_blocking=True)
        labels = labels.to(CFG.device, non_blocking=True)
        with torch.autocast(CFG.device.type, dtype=torch.float16, enabled=scaler.is_enabled()):
            loss = criterion(model(images), labels)
        losses.update(loss.item(), labels.size(0))
        scaler.scale(loss / CFG.accumulation).backward()
        if (step + 1) % CFG.accumulation == 0 or step + 1 == len(loader):
            scaler.unscale_(optimizer)
            torch.nn.utils.clip_grad_norm_(model.parameters(), CFG.max_norm)
            scaler.step(optimizer)
            scaler.update()
            optimizer.zero_grad()
        scheduler.step()
    return losses.avg


@torch.no_grad()
def valid_fn(loader, model, flips=False):
    model.eval()
    preds = []
    for images, _ in loader:
        images = images.to(CFG.device)
        views = [images, images.flip(-1), images.flip(-2)] if flips else [images]
        out = torch.stack([model(v).softmax(1) for v in views]).mean(0)
        preds.append(out.cpu().numpy())
    return np.concatenate(preds)


def run_fold(fold, labels, assignment):
    ids = np.arange(CFG.images)
    train_ids, valid_ids = ids[assignment != fold], ids[assignment == fold]
    train = LeafDataset(train_ids, labels[train_ids], True)
    valid = LeafDataset(valid_ids, labels[valid_ids], False)
    common = {"num_workers": CFG.workers, "pin_memory": CFG.device.type == "cuda"}
    train_loader = DataLoader(train, CFG.train_bs, shuffle=True, **common)
    valid_loader = DataLoader(valid, CFG.valid_bs, **common)
    model = LeafModel().to(CFG.device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=CFG.lr, weight_decay=1e-2)
    total = CFG.epochs * len(train_loader)
    scheduler = torch.optim.lr_scheduler.OneCycleLR(optimizer, CFG.lr, total_steps=total)
    scaler = torch.amp.GradScaler(CFG.device.type, enabled=CFG.device.type == "cuda")
    criterion = nn.CrossEntropyLoss(label_smoothing=0.05)
    best, path = -1.0, f"effnet_fold{fold}.pth"
    for epoch in range(CFG.epochs):
        start = time.time()
        loss = train_fn(train_loader, model, criterion, optimizer, scheduler, scaler)
        score = (valid_fn(valid_loader, model).argmax(1) == labels[valid_ids]).mean()
        print(
            f"fold {fold} epoch {epoch} loss {loss:.4f} acc {score:.4f} {time.time() - start:.0f}s"
        )
        if score > best:
            best = score
            torch.save({"model": model.state_dict(), "score": score}, path)
    model.load_state_dict(torch.load(path, weights_only=False)["model"])
    return valid_ids, valid_fn(valid_loader, model, flips=True)


def main():
    torch.manual_seed(CFG.seed)
    rng = np.random.default_rng(CFG.seed)
    labels = rng.integers(0, CFG.classes, CFG.images)
    assignment = rng.permutation(CFG.images) % CFG.n_fold
    oof = np.zeros((CFG.images, CFG.classes))
    for fold in CFG.folds:
        ids, preds = run_fold(fold, labels, assignment)
        oof[ids] = preds
        gc.collect()
        torch.cuda.empty_cache()
    done = np.isin(assignment, CFG.folds)
    print(f"CV {(oof[done].argmax(1) == labels[done]).mean():.4f}")


if __name__ == "__main__":
    main()
