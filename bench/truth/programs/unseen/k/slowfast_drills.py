#!/usr/bin/env python3
"""Two-pathway SlowFast video network for assembly drills: fp16 autocast with GradScaler, accumulation, a checkpoint per epoch."""

import os
import tempfile

import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset

CONFIG = {
    "frames": 32,
    "alpha": 4,
    "beta": 8,
    "size": 224,
    "classes": 18,
    "clips": 96,
    "batch": 12,
    "accumulate": 2,
    "epochs": 2,
    "lr": 0.05,
}


class Drills(Dataset):
    def __len__(self):
        return CONFIG["clips"]

    def __getitem__(self, i):
        g = torch.Generator().manual_seed(i)
        shape = (3, 1, CONFIG["size"], CONFIG["size"])
        first = torch.randint(0, 256, shape, dtype=torch.uint8, generator=g)
        speed = int(torch.randint(1, 5, (1,), generator=g))
        clip = torch.cat([first.roll(t * speed, dims=-1) for t in range(CONFIG["frames"])], dim=1)
        return clip, i % CONFIG["classes"]


def conv_bn(cin, cout, kernel, stride=1, padding=0):
    return nn.Sequential(
        nn.Conv3d(cin, cout, kernel, stride, padding, bias=False), nn.BatchNorm3d(cout)
    )


class Bottle(nn.Module):
    def __init__(self, cin, mid, cout, stride, temporal):
        super().__init__()
        k = (temporal, 1, 1)
        self.a = conv_bn(cin, mid, k, 1, (temporal // 2, 0, 0))
        self.b = conv_bn(mid, mid, (1, 3, 3), (1, stride, stride), (0, 1, 1))
        self.c = conv_bn(mid, cout, 1)
        self.skip = None
        if cin != cout or stride != 1:
            self.skip = conv_bn(cin, cout, 1, (1, stride, stride))
        self.relu = nn.ReLU(inplace=True)

    def forward(self, x):
        y = self.c(self.relu(self.b(self.relu(self.a(x)))))
        return self.relu(y + (x if self.skip is None else self.skip(x)))


def stage(cin, mid, cout, n, stride, temporal):
    blocks = [Bottle(cin, mid, cout, stride, temporal)]
    blocks += [Bottle(cout, mid, cout, 1, temporal) for _ in range(n - 1)]
    return nn.Sequential(*blocks)


class SlowFast(nn.Module):
    def __init__(self):
        super().__init__()
        self.alpha, beta = CONFIG["alpha"], CONFIG["beta"]
        pool = nn.MaxPool3d((1, 3, 3), (1, 2, 2), (0, 1, 1))
        self.slow_stem = nn.Sequential(
            conv_bn(3, 64, (1, 7, 7), (1, 2, 2), (0, 3, 3)), nn.ReLU(inplace=True), pool
        )
        self.fast_stem = nn.Sequential(
            conv_bn(3, 64 // beta, (5, 7, 7), (1, 2, 2), (2, 3, 3)),
            nn.ReLU(inplace=True),
            pool,
        )
        self.slow, self.fast, self.lateral = (
            nn.ModuleList(),
            nn.ModuleList(),
            nn.ModuleList(),
        )
        cin = 64
        for i, (mid, n) in enumerate([(64, 2), (128, 3), (256, 4), (512, 2)]):
            f_in = cin // beta
            self.lateral.append(
                nn.Conv3d(f_in, 2 * f_in, (5, 1, 1), (self.alpha, 1, 1), (2, 0, 0), bias=False)
            )
            stride = 1 if i == 0 else 2
            self.slow.append(stage(cin + 2 * f_in, mid, 4 * mid, n, stride, 1 if i < 2 else 3))
            self.fast.append(stage(f_in, mid // beta, 4 * mid // beta, n, stride, 3))
            cin = 4 * mid
        self.head = nn.Sequential(nn.Dropout(0.5), nn.Linear(cin + cin // beta, CONFIG["classes"]))

    def forward(self, clip):
        slow = self.slow_stem(clip[:, :, :: self.alpha])
        fast = self.fast_stem(clip)
        for s, f, lateral in zip(self.slow, self.fast, self.lateral):
            slow = s(torch.cat([slow, lateral(fast)], dim=1))
            fast = f(fast)
        return self.head(torch.cat([slow.mean((2, 3, 4)), fast.mean((2, 3, 4))], dim=1))


if __name__ == "__main__":
    torch.manual_seed(6)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    loader = DataLoader(
        Drills(),
        CONFIG["batch"],
        shuffle=True,
        num_workers=3,
        pin_memory=True,
        drop_last=True,
    )
    model = SlowFast().to(device)
    optimizer = torch.optim.SGD(model.parameters(), CONFIG["lr"], momentum=0.9, weight_decay=1e-4)
    scaler = torch.amp.GradScaler(device.type, enabled=device.type == "cuda")
    schedule = torch.optim.lr_scheduler.MultiStepLR(optimizer, [1], gamma=0.1)
    folder = tempfile.mkdtemp(prefix="slowfast_")

    for epoch in range(CONFIG["epochs"]):
        total = 0.0
        optimizer.zero_grad()
        for i, (clips, labels) in enumerate(loader):
            clips = clips.to(device, non_blocking=True).float().div_(255)
            labels = labels.to(device)
            with torch.autocast(device.type, dtype=torch.float16):
                loss = nn.functional.cross_entropy(model(clips), labels)
            scaler.scale(loss / CONFIG["accumulate"]).backward()
            if (i + 1) % CONFIG["accumulate"] == 0:
                scaler.unscale_(optimizer)
                nn.utils.clip_grad_norm_(model.parameters(), 10.0)
                scaler.step(optimizer)
                scaler.update()
                optimizer.zero_grad()
            total += loss.item()
        schedule.step()
        path = os.path.join(folder, "last.pt")
        torch.save(
            {
                "model": model.state_dict(),
                "opt": optimizer.state_dict(),
                "epoch": epoch,
            },
            path,
        )
        print(f"epoch {epoch} mean loss {total / len(loader):.4f}, wrote {path}")
