# %% [markdown]
# Pressure of a ventilator: stacked LSTM, 2 of 5 folds, mixed precision

# %%
import copy
import gc
import random
import time

import numpy as np
import torch
from torch import nn
from torch.amp import GradScaler, autocast
from torch.utils.data import DataLoader, Dataset


class CFG:
    apex = True
    seed = 42
    n_fold = 5
    trn_fold = [0, 1]
    breaths = 12000
    steps = 80
    features = 48
    hidden = 512
    layers = 4
    batch_size = 1024
    valid_batch_size = 4096
    epochs = 3
    lr = 5e-3
    max_grad_norm = 1000
    num_workers = 4
    early_stop = 2
    print_freq = 5


device = torch.device("cuda" if torch.cuda.is_available() else "cpu")


# %%
def seed_everything(seed=42):
    random.seed(seed)
    np.random.seed(seed)
    torch.manual_seed(seed)
    torch.cuda.manual_seed_all(seed)


class AverageMeter:
    def __init__(self):
        self.val = self.avg = self.sum = self.count = 0

    def update(self, val, n=1):
        self.val = val
        self.sum += val * n
        self.count += n
        self.avg = self.sum / self.count


seed_everything(CFG.seed)
X = np.random.randn(CFG.breaths, CFG.steps, CFG.features).astype(np.float32)
Y = np.cumsum(X[..., 0], axis=1) * 0.1
U_OUT = (np.arange(CFG.steps)[None].repeat(CFG.breaths, 0) > 32).astype(np.float32)
FOLD = np.random.permutation(CFG.breaths) % CFG.n_fold


# %%
class TrainDataset(Dataset):
    def __init__(self, index):
        self.index = index

    def __len__(self):
        return len(self.index)

    def __getitem__(self, i):
        j = self.index[i]
        return torch.from_numpy(X[j]), torch.from_numpy(Y[j]), torch.from_numpy(U_OUT[j])


class CustomModel(nn.Module):
    def __init__(self, cfg):
        super().__init__()
        self.mlp = nn.Sequential(
            nn.Linear(cfg.features, cfg.hidden),
            nn.LayerNorm(cfg.hidden),
            nn.ReLU(),
            nn.Dropout(0.0),
        )
        self.lstm = nn.LSTM(
            cfg.hidden, cfg.hidden, cfg.layers, batch_first=True, bidirectional=True, dropout=0.1
        )
        self.head = nn.Sequential(
            nn.Linear(cfg.hidden * 2, cfg.hidden * 2),
            nn.LayerNorm(cfg.hidden * 2),
            nn.ReLU(),
            nn.Linear(cfg.hidden * 2, 950),
        )
        self.register_buffer("levels", torch.linspace(-5, 5, 950))
        for name, p in self.lstm.named_parameters():
            if "weight_hh" in name:
                nn.init.orthogonal_(p)

    def forward(self, x):
        x, _ = self.lstm(self.mlp(x))
        return self.head(x)


class MAELoss(nn.Module):
    def forward(self, logits, y, u_out, levels):
        guess = (logits.float().softmax(-1) * levels).sum(-1)
        w = 1 - u_out
        return (w * (y - guess).abs()).sum() / w.sum()


# %%
def train_fn(loader, model, optimizer, scheduler, scaler):
    model.train()
    losses = AverageMeter()
    for step, (x, y, u) in enumerate(loader):
        x, y, u = x.to(device), y.to(device), u.to(device)
        with autocast("cuda", enabled=CFG.apex):
            logits = model(x)
            loss = MAELoss()(logits, y, u, model.levels)
        losses.update(loss.item(), len(x))
        scaler.scale(loss).backward()
        scaler.unscale_(optimizer)
        grad_norm = nn.utils.clip_grad_norm_(model.parameters(), CFG.max_grad_norm)
        scaler.step(optimizer)
        scaler.update()
        optimizer.zero_grad()
        scheduler.step()
        if step % CFG.print_freq == 0:
            print(
                f"[{step}/{len(loader)}] Loss: {losses.val:.4f}({losses.avg:.4f}) Grad: {grad_norm:.4f}"
            )
    return losses.avg


def valid_fn(loader, model):
    model.eval()
    losses, preds = AverageMeter(), []
    for x, y, u in loader:
        x, y, u = x.to(device), y.to(device), u.to(device)
        with torch.no_grad():
            logits = model(x)
            losses.update(MAELoss()(logits, y, u, model.levels).item(), len(x))
        preds.append((logits.softmax(-1) * model.levels).sum(-1).cpu().numpy())
    return losses.avg, np.concatenate(preds)


def train_loop(fold):
    print(f"========== fold: {fold} training ==========")
    train = DataLoader(
        TrainDataset(np.where(fold != FOLD)[0]),
        batch_size=CFG.batch_size,
        shuffle=True,
        num_workers=CFG.num_workers,
        pin_memory=True,
        drop_last=True,
    )
    valid = DataLoader(TrainDataset(np.where(fold == FOLD)[0]), batch_size=CFG.valid_batch_size)
    model = CustomModel(CFG).to(device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=CFG.lr, weight_decay=1e-2)
    scheduler = torch.optim.lr_scheduler.OneCycleLR(
        optimizer, CFG.lr, total_steps=CFG.epochs * len(train) + 1
    )
    scaler = GradScaler("cuda", enabled=CFG.apex)
    best_score, best, patience = np.inf, None, 0
    for epoch in range(CFG.epochs):
        start = time.time()
        avg_loss = train_fn(train, model, optimizer, scheduler, scaler)
        score, _ = valid_fn(valid, model)
        print(
            f"Epoch {epoch + 1} - train: {avg_loss:.4f} valid: {score:.4f} time: {time.time() - start:.0f}s"
        )
        if score < best_score:
            best_score, best, patience = score, copy.deepcopy(model), 0
            torch.save({"model": model.state_dict()}, f"fold{fold}_best.pth")
        else:
            patience += 1
            if patience >= CFG.early_stop:
                print("Early stopping")
                break
    _, preds = valid_fn(valid, best)
    del model, best, optimizer
    torch.cuda.empty_cache()
    gc.collect()
    return preds


# %%
oof = np.zeros((CFG.breaths, CFG.steps), dtype=np.float32)
for fold in CFG.trn_fold:
    oof[fold == FOLD] = train_loop(fold)
mask = np.isin(FOLD, CFG.trn_fold)
print("CV:", np.abs(oof - Y)[mask][U_OUT[mask] == 0].mean())
