"""Fine-tune ConvNeXt-Small on dermoscopy pictures with gradient accumulation."""

import argparse
import math

import torch
import torch.nn.functional as F
from torch.utils.data import DataLoader, Dataset
from torchvision.models import convnext_small


class Moles(Dataset):
    def __init__(self, n, size):
        self.pool = torch.randn(24, 3, size, size)
        self.n = n

    def __len__(self):
        return self.n

    def __getitem__(self, i):
        img = self.pool[i % 24]
        return torch.rot90(img, i % 4, (1, 2)), float(i % 7 == 0)


def focal_loss(logit, target, gamma=2.0, alpha=0.75):
    bce = F.binary_cross_entropy_with_logits(logit, target, reduction="none")
    p = torch.sigmoid(logit)
    pt = torch.where(target > 0.5, p, 1 - p)
    a = torch.where(target > 0.5, alpha, 1 - alpha)
    return (a * (1 - pt) ** gamma * bce).mean()


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--micro-batch", type=int, default=40)
    p.add_argument("--accum", type=int, default=3)
    p.add_argument("--val-batch", type=int, default=64)
    p.add_argument("--size", type=int, default=256)
    p.add_argument("--n", type=int, default=300)
    p.add_argument("--epochs", type=int, default=2)
    p.add_argument("--lr", type=float, default=1e-4)
    args = p.parse_args()
    torch.manual_seed(args.n)
    device = "cuda" if torch.cuda.is_available() else "cpu"

    train_loader = DataLoader(
        Moles(args.n, args.size), args.micro_batch, shuffle=True, num_workers=2, pin_memory=True
    )
    val_loader = DataLoader(Moles(args.n // 2, args.size), args.val_batch, num_workers=1)
    model = convnext_small(weights=None, stochastic_depth_prob=0.2)
    model.classifier[2] = torch.nn.Linear(model.classifier[2].in_features, 1)
    model.to(device)
    optimizer = torch.optim.AdamW(
        model.parameters(), lr=args.lr, weight_decay=0.05, betas=(0.9, 0.95)
    )
    updates = args.epochs * math.ceil(len(train_loader) / args.accum)
    scheduler = torch.optim.lr_scheduler.LambdaLR(
        optimizer,
        lambda s: min(1.0, (s + 1) / 2) * 0.5 * (1 + math.cos(math.pi * s / max(1, updates))),
    )

    for epoch in range(args.epochs):
        model.train()
        optimizer.zero_grad()
        for i, (x, y) in enumerate(train_loader):
            x, y = x.to(device, non_blocking=True), y.float().to(device)
            with torch.autocast(device, dtype=torch.bfloat16):
                logit = model(x).squeeze(1)
            loss = focal_loss(logit.float(), y)
            (loss / args.accum).backward()
            if (i + 1) % args.accum == 0 or i + 1 == len(train_loader):
                torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
                optimizer.step()
                scheduler.step()
                optimizer.zero_grad()
                print(f"epoch {epoch} micro {i} loss {loss.item():.4f}")

        model.eval()
        scores, targets = [], []
        with torch.inference_mode():
            for x, y in val_loader:
                with torch.autocast(device, dtype=torch.bfloat16):
                    # flip test-time augmentation
                    x = x.to(device)
                    s = model(x).squeeze(1) + model(x.flip(-1)).squeeze(1)
                scores.append(s.float().sigmoid().cpu())
                targets.append(y)
        scores, targets = torch.cat(scores), torch.cat(targets)
        pos, neg = scores[targets > 0.5], scores[targets < 0.5]
        auc = (pos[:, None] > neg[None]).float().mean()
        print(f"epoch {epoch} auc {auc:.3f}")
    torch.save(model.state_dict(), "moles_convnext.pt")


if __name__ == "__main__":
    main()
