"""Classify baggage photographs with a RegNet, mixed precision fp16."""

import argparse
import math
import os
import time

import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset
from torchvision.models import regnet_y_3_2gf


class BagPhotos(Dataset):
    """Stands in for the photo archive: random crops out of a pool of pictures."""

    def __init__(self, n, size, classes, train, seed=0):
        g = torch.Generator().manual_seed(seed)
        self.pool = torch.randint(
            0, 256, (40, 3, size + 32, size + 32), dtype=torch.uint8, generator=g
        )
        self.labels = torch.randint(0, classes, (n,), generator=g)
        self.size, self.train = size, train

    def __len__(self):
        return len(self.labels)

    def __getitem__(self, i):
        img = self.pool[i % len(self.pool)]
        if self.train:
            y, x = torch.randint(0, 33, (2,)).tolist()
        else:
            y = x = 16
        img = img[:, y : y + self.size, x : x + self.size]
        if self.train and torch.rand(()) < 0.5:
            img = img.flip(-1)
        return img.float().div_(127.5).sub_(1), self.labels[i]


def parse():
    p = argparse.ArgumentParser()
    p.add_argument("--epochs", type=int, default=2)
    p.add_argument("--batch-size", type=int, default=128)
    p.add_argument("--eval-batch-size", type=int, default=200)
    p.add_argument("--train-images", type=int, default=1500)
    p.add_argument("--val-images", type=int, default=500)
    p.add_argument("--image-size", type=int, default=224)
    p.add_argument("--classes", type=int, default=37)
    p.add_argument("--lr", type=float, default=0.4)
    p.add_argument("--clip", type=float, default=2.0)
    p.add_argument("--workers", type=int, default=3)
    return p.parse_args()


@torch.no_grad()
def evaluate(model, loader, device):
    model.eval()
    right = total = 0
    for x, y in loader:
        x = x.to(device, non_blocking=True, memory_format=torch.channels_last)
        y = y.to(device, non_blocking=True)
        with torch.autocast("cuda", dtype=torch.float16):
            logits = model(x)
        right += (logits.argmax(1) == y).sum().item()
        total += y.numel()
    return right / total


def main():
    args = parse()
    torch.manual_seed(17)
    torch.backends.cudnn.benchmark = True
    device = torch.device("cuda")

    train = DataLoader(
        BagPhotos(args.train_images, args.image_size, args.classes, True),
        args.batch_size,
        shuffle=True,
        num_workers=args.workers,
        pin_memory=True,
        drop_last=True,
        persistent_workers=args.workers > 0,
    )
    val = DataLoader(
        BagPhotos(args.val_images, args.image_size, args.classes, False, seed=1),
        args.eval_batch_size,
        num_workers=args.workers,
        pin_memory=True,
    )

    model = regnet_y_3_2gf(weights=None, num_classes=args.classes)
    model = model.to(device, memory_format=torch.channels_last)
    decay = [p for p in model.parameters() if p.ndim > 1]
    plain = [p for p in model.parameters() if p.ndim <= 1]
    opt = torch.optim.SGD(
        [{"params": decay, "weight_decay": 5e-5}, {"params": plain, "weight_decay": 0.0}],
        lr=args.lr,
        momentum=0.9,
        nesterov=True,
    )
    steps = args.epochs * len(train)
    warm = max(1, steps // 10)
    sched = torch.optim.lr_scheduler.LambdaLR(
        opt,
        lambda s: (s + 1) / warm
        if s < warm
        else 0.5 * (1 + math.cos(math.pi * (s - warm) / (steps - warm))),
    )
    scaler = torch.amp.GradScaler("cuda")
    loss_fn = nn.CrossEntropyLoss(label_smoothing=0.1)

    best = -1.0
    for epoch in range(args.epochs):
        model.train()
        start, seen, running = time.time(), 0, 0.0
        for step, (x, y) in enumerate(train):
            x = x.to(device, non_blocking=True, memory_format=torch.channels_last)
            y = y.to(device, non_blocking=True)
            with torch.autocast("cuda", dtype=torch.float16):
                loss = loss_fn(model(x), y)
            opt.zero_grad(set_to_none=True)
            scaler.scale(loss).backward()
            scaler.unscale_(opt)
            norm = nn.utils.clip_grad_norm_(model.parameters(), args.clip)
            scaler.step(opt)
            scaler.update()
            sched.step()
            seen += y.numel()
            running += loss.item()
            if step % 5 == 0:
                print(
                    f"epoch {epoch} step {step:3d} loss {loss.item():.3f} norm {norm.item():.2f} "
                    f"scale {scaler.get_scale():.0f}"
                )
        acc = evaluate(model, val, device)
        print(
            f"epoch {epoch}: train loss {running / len(train):.3f}, val acc {acc:.3f}, "
            f"{seen / (time.time() - start):.0f} img/s"
        )
        if acc > best:
            best = acc
            torch.save(
                {
                    "model": model.state_dict(),
                    "opt": opt.state_dict(),
                    "scaler": scaler.state_dict(),
                    "epoch": epoch,
                },
                "regnet_bags.pt",
            )
    print("best", best, "checkpoint", os.path.getsize("regnet_bags.pt") // 2**20, "MiB")


if __name__ == "__main__":
    main()
