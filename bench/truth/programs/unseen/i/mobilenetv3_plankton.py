"""Plankton image classifier: MobileNetV3-Large, bf16 autocast, RMSprop, weight EMA."""

import argparse
import copy
import time

import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader, Dataset
from torchvision.models import mobilenet_v3_large


class PlanktonSet(Dataset):
    def __init__(self, n, size, classes, train):
        g = torch.Generator().manual_seed(n)
        self.base = torch.randint(
            0, 256, (64, 3, size + 16, size + 16), dtype=torch.uint8, generator=g
        )
        self.labels = torch.randint(0, classes, (n,), generator=g)
        self.size, self.train = size, train

    def __len__(self):
        return len(self.labels)

    def __getitem__(self, i):
        img = self.base[i % len(self.base)]
        if self.train:
            y, x = torch.randint(0, 17, (2,)).tolist()
            img = img[:, y : y + self.size, x : x + self.size]
            if torch.rand(()) < 0.5:
                img = img.flip(-1)
        else:
            img = img[:, 8 : 8 + self.size, 8 : 8 + self.size]
        return img.float().div(255).sub(0.5).div(0.25), self.labels[i]


class Ema:
    def __init__(self, model, decay):
        self.module = copy.deepcopy(model).eval().requires_grad_(False)
        self.decay = decay

    @torch.no_grad()
    def update(self, model):
        for e, p in zip(self.module.state_dict().values(), model.state_dict().values()):
            if e.dtype.is_floating_point:
                e.lerp_(p.detach(), 1 - self.decay)
            else:
                e.copy_(p)


@torch.no_grad()
def evaluate(model, loader, device):
    hits = total = 0
    for x, y in loader:
        x, y = x.to(device, non_blocking=True), y.to(device, non_blocking=True)
        with torch.autocast(device, dtype=torch.bfloat16):
            out = model(x)
        hits += (out.argmax(1) == y).sum().item()
        total += len(y)
    return hits / total


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--batch-size", type=int, default=160)
    ap.add_argument("--eval-batch-size", type=int, default=256)
    ap.add_argument("--images", type=int, default=1200)
    ap.add_argument("--size", type=int, default=224)
    ap.add_argument("--epochs", type=int, default=2)
    ap.add_argument("--workers", type=int, default=2)
    args = ap.parse_args()
    torch.manual_seed(17)
    device = "cuda" if torch.cuda.is_available() else "cpu"

    train = DataLoader(
        PlanktonSet(args.images, args.size, 121, True),
        args.batch_size,
        shuffle=True,
        num_workers=args.workers,
        pin_memory=True,
        drop_last=True,
    )
    val = DataLoader(
        PlanktonSet(args.images // 3, args.size, 121, False),
        args.eval_batch_size,
        num_workers=args.workers,
        pin_memory=True,
    )
    model = mobilenet_v3_large(weights=None, num_classes=121).to(device)
    ema = Ema(model, 0.99)
    opt = torch.optim.RMSprop(
        model.parameters(), lr=0.002, alpha=0.9, momentum=0.9, eps=0.0316, weight_decay=1e-5
    )
    sched = torch.optim.lr_scheduler.ExponentialLR(opt, 0.97)
    best = -1.0
    for epoch in range(args.epochs):
        model.train()
        t0, running = time.time(), 0.0
        for x, y in train:
            x, y = x.to(device, non_blocking=True), y.to(device, non_blocking=True)
            with torch.autocast(device, dtype=torch.bfloat16):
                loss = F.cross_entropy(model(x), y, label_smoothing=0.1)
            opt.zero_grad(set_to_none=True)
            loss.backward()
            nn.utils.clip_grad_norm_(model.parameters(), 5.0)
            opt.step()
            ema.update(model)
            running += loss.item()
        sched.step()
        acc = evaluate(ema.module, val, device)
        print(
            f"epoch {epoch} loss {running / len(train):.3f} ema acc {acc:.3f} {time.time() - t0:.1f}s"
        )
        if acc > best:
            best = acc
            torch.save({"ema": ema.module.state_dict(), "epoch": epoch}, "plankton_best.pt")


if __name__ == "__main__":
    main()
