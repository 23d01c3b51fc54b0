"""Crop disease classifier: SE-ResNet written by hand, fp16 autocast, GradScaler, gradient clipping."""

import argparse
import random
import time

import numpy as np
import torch
import torch.nn.functional as F
from torch import nn


class SqueezeExcite(nn.Module):
    def __init__(self, channels, reduction=16):
        super().__init__()
        self.fc1 = nn.Linear(channels, channels // reduction)
        self.fc2 = nn.Linear(channels // reduction, channels)

    def forward(self, x):
        s = x.mean(dim=(2, 3))
        s = torch.sigmoid(self.fc2(F.relu(self.fc1(s))))
        return x * s[:, :, None, None]


class SEBottleneck(nn.Module):
    expansion = 4

    def __init__(self, cin, width, stride):
        super().__init__()
        cout = width * self.expansion
        self.conv1 = nn.Conv2d(cin, width, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(width)
        self.conv2 = nn.Conv2d(width, width, 3, stride, 1, bias=False)
        self.bn2 = nn.BatchNorm2d(width)
        self.conv3 = nn.Conv2d(width, cout, 1, bias=False)
        self.bn3 = nn.BatchNorm2d(cout)
        self.se = SqueezeExcite(cout)
        self.shortcut = None
        if stride != 1 or cin != cout:
            self.shortcut = nn.Sequential(
                nn.Conv2d(cin, cout, 1, stride, bias=False), nn.BatchNorm2d(cout)
            )

    def forward(self, x):
        skip = x if self.shortcut is None else self.shortcut(x)
        y = F.relu(self.bn1(self.conv1(x)))
        y = F.relu(self.bn2(self.conv2(y)))
        y = self.se(self.bn3(self.conv3(y)))
        return F.relu(y + skip)


class SEResNet(nn.Module):
    def __init__(self, depths, num_classes):
        super().__init__()
        self.stem = nn.Sequential(
            nn.Conv2d(3, 64, 7, 2, 3, bias=False),
            nn.BatchNorm2d(64),
            nn.ReLU(),
            nn.MaxPool2d(3, 2, 1),
        )
        blocks, cin = [], 64
        for i, depth in enumerate(depths):
            width = 64 * 2**i
            for j in range(depth):
                blocks.append(SEBottleneck(cin, width, 2 if (i > 0 and j == 0) else 1))
                cin = width * 4
        self.blocks = nn.Sequential(*blocks)
        self.head = nn.Linear(cin, num_classes)

    def forward(self, x):
        x = self.blocks(self.stem(x))
        return self.head(x.mean(dim=(2, 3)))


def get_args():
    p = argparse.ArgumentParser()
    p.add_argument("--batch-size", type=int, default=112)
    p.add_argument("--image-size", type=int, default=224)
    p.add_argument("--steps", type=int, default=24)
    p.add_argument("--classes", type=int, default=38)
    p.add_argument("--lr", type=float, default=0.05)
    p.add_argument("--clip", type=float, default=1.0)
    p.add_argument("--depths", type=int, nargs=4, default=[3, 4, 6, 3])
    p.add_argument("--seed", type=int, default=11)
    return p.parse_args()


def main():
    args = get_args()
    random.seed(args.seed)
    np.random.seed(args.seed)
    torch.manual_seed(args.seed)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    use_amp = device.type == "cuda"

    model = SEResNet(args.depths, args.classes).to(device)
    print(f"parameters: {sum(p.numel() for p in model.parameters()) / 1e6:.1f}M")
    optimizer = torch.optim.SGD(model.parameters(), lr=args.lr, momentum=0.9, weight_decay=1e-4)
    scheduler = torch.optim.lr_scheduler.OneCycleLR(
        optimizer, max_lr=args.lr, total_steps=args.steps + 1
    )
    scaler = torch.amp.GradScaler("cuda", enabled=use_amp)
    criterion = nn.CrossEntropyLoss(label_smoothing=0.1)

    # a small pool of images, sampled with replacement
    pool = torch.randint(0, 256, (512, 3, args.image_size, args.image_size), dtype=torch.uint8)
    targets = torch.randint(0, args.classes, (512,))

    model.train()
    start = time.time()
    for step in range(1, args.steps + 1):
        idx = torch.randint(0, len(pool), (args.batch_size,))
        x = pool[idx].to(device, non_blocking=True).float().div_(255).sub_(0.5)
        y = targets[idx].to(device)
        if random.random() < 0.5:
            x = x.flip(3)
        optimizer.zero_grad(set_to_none=True)
        with torch.autocast("cuda", dtype=torch.float16, enabled=use_amp):
            logits = model(x)
            loss = criterion(logits, y)
        scaler.scale(loss).backward()
        scaler.unscale_(optimizer)
        norm = nn.utils.clip_grad_norm_(model.parameters(), args.clip)
        scaler.step(optimizer)
        scaler.update()
        scheduler.step()
        if step % 6 == 0:
            acc = (logits.argmax(1) == y).float().mean().item()
            print(
                f"step {step} loss {loss.item():.4f} acc {acc:.3f} grad {norm.item():.2f} "
                f"scale {scaler.get_scale():.0f} {time.time() - start:.1f}s"
            )


if __name__ == "__main__":
    main()
