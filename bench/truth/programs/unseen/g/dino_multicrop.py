"""Self-distillation without labels: a student ViT sees many crops, a teacher (moving average) sees the large ones."""

import argparse
import json
import math
import os
import sys

import numpy as np
import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader, Dataset
from torchvision.transforms import v2


class MultiCrop:
    def __init__(self, big, small, n_small):
        flip = v2.RandomHorizontalFlip()
        self.global_tf = v2.Compose(
            [
                v2.RandomResizedCrop(big, scale=(0.4, 1.0), antialias=True),
                flip,
                v2.ColorJitter(0.4, 0.4),
            ]
        )
        self.local_tf = v2.Compose(
            [v2.RandomResizedCrop(small, scale=(0.05, 0.4), antialias=True), flip]
        )
        self.n_small = n_small

    def __call__(self, img):
        return [self.global_tf(img), self.global_tf(img)] + [
            self.local_tf(img) for _ in range(self.n_small)
        ]


class Unlabelled(Dataset):
    def __init__(self, n, side, transform):
        self.n, self.side, self.transform = n, side, transform

    def __len__(self):
        return self.n

    def __getitem__(self, i):
        g = torch.Generator().manual_seed(i)
        x = F.interpolate(
            torch.rand(1, 3, 24, 24, generator=g),
            size=self.side,
            mode="bilinear",
            align_corners=False,
        )[0]
        return self.transform(x)


class Block(nn.Module):
    def __init__(self, dim, heads, drop_path):
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(dim), nn.LayerNorm(dim)
        self.qkv, self.proj = nn.Linear(dim, 3 * dim), nn.Linear(dim, dim)
        self.mlp = nn.Sequential(nn.Linear(dim, 4 * dim), nn.GELU(), nn.Linear(4 * dim, dim))
        self.heads, self.drop_path = heads, drop_path

    def path(self, x):
        if not self.training or self.drop_path == 0:
            return x
        keep = 1 - self.drop_path
        mask = torch.rand(x.shape[0], 1, 1, device=x.device).add_(keep).floor_()
        return x / keep * mask

    def forward(self, x):
        b, n, d = x.shape
        q, k, v = (
            self.qkv(self.norm1(x))
            .reshape(b, n, 3, self.heads, d // self.heads)
            .permute(2, 0, 3, 1, 4)
        )
        a = (q @ k.transpose(-2, -1)) * (d // self.heads) ** -0.5
        a = a.softmax(-1)
        x = x + self.path(self.proj((a @ v).transpose(1, 2).reshape(b, n, d)))
        return x + self.path(self.mlp(self.norm2(x)))


class ViT(nn.Module):
    def __init__(self, size, patch, dim, depth, heads, drop_path):
        super().__init__()
        self.patch = nn.Conv2d(3, dim, patch, patch)
        self.side = size // patch
        self.cls = nn.Parameter(torch.zeros(1, 1, dim))
        self.pos = nn.Parameter(torch.randn(1, 1 + self.side**2, dim) * 0.02)
        self.blocks = nn.ModuleList(
            [Block(dim, heads, r.item()) for r in torch.linspace(0, drop_path, depth)]
        )
        self.norm = nn.LayerNorm(dim)

    def positions(self, h, w):
        if h == self.side and w == self.side:
            return self.pos
        grid = self.pos[:, 1:].reshape(1, self.side, self.side, -1).permute(0, 3, 1, 2)
        grid = F.interpolate(grid, size=(h, w), mode="bicubic", align_corners=False)
        return torch.cat([self.pos[:, :1], grid.permute(0, 2, 3, 1).flatten(1, 2)], 1)

    def forward(self, x):
        x = self.patch(x)
        h, w = x.shape[-2:]
        x = x.flatten(2).transpose(1, 2)
        x = torch.cat([self.cls.expand(x.shape[0], -1, -1), x], 1) + self.positions(h, w)
        for block in self.blocks:
            x = block(x)
        return self.norm(x)[:, 0]


class Head(nn.Module):
    def __init__(self, dim, out, hidden=2048, bottleneck=256):
        super().__init__()
        self.mlp = nn.Sequential(
            nn.Linear(dim, hidden),
            nn.GELU(),
            nn.Linear(hidden, hidden),
            nn.GELU(),
            nn.Linear(hidden, bottleneck),
        )
        self.last = nn.utils.parametrizations.weight_norm(nn.Linear(bottleneck, out, bias=False))
        self.last.parametrizations.weight.original0.data.fill_(1)
        self.last.parametrizations.weight.original0.requires_grad = False

    def forward(self, x):
        return self.last(F.normalize(self.mlp(x), dim=-1))


class MultiCropWrapper(nn.Module):
    def __init__(self, backbone, head):
        super().__init__()
        self.backbone, self.head = backbone, head

    def forward(self, crops):
        idx = torch.cumsum(
            torch.unique_consecutive(
                torch.tensor([c.shape[-1] for c in crops]), return_counts=True
            )[1],
            0,
        )
        start, out = 0, []
        for end in idx.tolist():
            out.append(self.backbone(torch.cat(crops[start:end])))
            start = end
        return self.head(torch.cat(out))


class DINOLoss(nn.Module):
    def __init__(self, out_dim, n_crops, student_temp=0.1, teacher_temp=0.04, momentum=0.9):
        super().__init__()
        self.register_buffer("center", torch.zeros(1, out_dim))
        self.n_crops, self.student_temp, self.teacher_temp, self.momentum = (
            n_crops,
            student_temp,
            teacher_temp,
            momentum,
        )

    def forward(self, student, teacher):
        student = (student / self.student_temp).chunk(self.n_crops)
        t = F.softmax((teacher - self.center) / self.teacher_temp, dim=-1).detach().chunk(2)
        total, n = 0, 0
        for i, q in enumerate(t):
            for j, s in enumerate(student):
                if i == j:
                    continue
                total = total + torch.sum(-q * F.log_softmax(s, dim=-1), dim=-1).mean()
                n += 1
        with torch.no_grad():
            self.center.mul_(self.momentum).add_(
                teacher.mean(0, keepdim=True), alpha=1 - self.momentum
            )
        return total / n


def cosine(base, final, steps, warmup=0):
    ramp = np.linspace(0, base, warmup)
    t = np.arange(steps - warmup)
    return np.concatenate(
        [ramp, final + 0.5 * (base - final) * (1 + np.cos(np.pi * t / max(1, len(t))))]
    )


def main(args):
    torch.manual_seed(0)
    device = torch.device("cuda")
    n_crops = 2 + args.local_crops
    data = Unlabelled(
        args.images,
        args.source_side,
        MultiCrop(args.global_size, args.local_size, args.local_crops),
    )
    loader = DataLoader(
        data,
        batch_size=args.batch_size,
        shuffle=True,
        num_workers=args.workers,
        pin_memory=True,
        drop_last=True,
    )

    student = MultiCropWrapper(
        ViT(args.global_size, args.patch, args.dim, args.depth, args.heads, 0.1),
        Head(args.dim, args.out_dim),
    )
    student = student.to(device)
    teacher = MultiCropWrapper(
        ViT(args.global_size, args.patch, args.dim, args.depth, args.heads, 0.0),
        Head(args.dim, args.out_dim),
    )
    teacher = teacher.to(device)
    teacher.load_state_dict(student.state_dict())
    for p in teacher.parameters():
        p.requires_grad = False
    loss_fn = DINOLoss(args.out_dim, n_crops).to(device)

    regularized = [
        p
        for n, p in student.named_parameters()
        if p.requires_grad and p.ndim > 1 and not n.endswith("bias")
    ]
    rest = [
        p
        for n, p in student.named_parameters()
        if p.requires_grad and not (p.ndim > 1 and not n.endswith("bias"))
    ]
    optimizer = torch.optim.AdamW([{"params": regularized}, {"params": rest, "weight_decay": 0.0}])
    scaler = torch.amp.GradScaler("cuda")
    steps = args.epochs * len(loader)
    lr_schedule = cosine(5e-4 * args.batch_size / 256, 1e-6, steps, steps // 5)
    wd_schedule = cosine(0.04, 0.4, steps)
    momentum_schedule = cosine(0.996, 1, steps)

    for epoch in range(args.epochs):
        stats = {"epoch": epoch, "loss": []}
        for it, crops in enumerate(loader):
            it = epoch * len(loader) + it
            for i, group in enumerate(optimizer.param_groups):
                group["lr"] = lr_schedule[it]
                if i == 0:
                    group["weight_decay"] = wd_schedule[it]
            crops = [c.to(device, non_blocking=True) for c in crops]
            with torch.autocast("cuda", dtype=torch.float16):
                teacher_out = teacher(crops[:2])
                student_out = student(crops)
                loss = loss_fn(student_out.float(), teacher_out.float())
            if not math.isfinite(loss.item()):
                print(f"Loss is {loss.item()}, stopping training")
                sys.exit(1)
            optimizer.zero_grad()
            scaler.scale(loss).backward()
            scaler.unscale_(optimizer)
            nn.utils.clip_grad_norm_(student.parameters(), 3.0)
            if epoch < args.freeze_last_layer:
                for n, p in student.named_parameters():
                    if "last" in n:
                        p.grad = None
            scaler.step(optimizer)
            scaler.update()
            with torch.no_grad():
                m = momentum_schedule[it]
                for q, k in zip(student.parameters(), teacher.parameters()):
                    k.data.mul_(m).add_((1 - m) * q.detach().data)
            stats["loss"].append(loss.item())
            if it % 10 == 0:
                print(
                    f"it {it}/{steps} loss {loss.item():.4f} lr {lr_schedule[it]:.6f} wd {wd_schedule[it]:.3f}"
                )
        stats["loss"] = sum(stats["loss"]) / len(stats["loss"])
        with open("dino_log.txt", "a") as f:
            f.write(json.dumps(stats) + "\n")
        torch.save(
            {
                "student": student.state_dict(),
                "teacher": teacher.state_dict(),
                "optimizer": optimizer.state_dict(),
                "epoch": epoch + 1,
                "loss": loss_fn.state_dict(),
            },
            "dino_checkpoint.pth",
        )

    # k-NN style check of the teacher features
    teacher.eval()
    with torch.no_grad():
        feats = torch.cat([teacher.backbone(c[0].to(device)) for c in loader])
        feats = F.normalize(feats, dim=1)
        print("mean cosine between features", (feats @ feats.t()).mean().item())
    for name in ("dino_checkpoint.pth", "dino_log.txt"):
        os.remove(name)


if __name__ == "__main__":
    p = argparse.ArgumentParser("DINO")
    p.add_argument("--images", type=int, default=1000)
    p.add_argument("--source_side", type=int, default=256)
    p.add_argument("--global_size", type=int, default=224)
    p.add_argument("--local_size", type=int, default=96)
    p.add_argument("--local_crops", type=int, default=6)
    p.add_argument("--patch", type=int, default=16)
    p.add_argument("--dim", type=int, default=384)
    p.add_argument("--depth", type=int, default=12)
    p.add_argument("--heads", type=int, default=6)
    p.add_argument("--out_dim", type=int, default=32768)
    p.add_argument("--batch_size", type=int, default=48)
    p.add_argument("--epochs", type=int, default=2)
    p.add_argument("--freeze_last_layer", type=int, default=1)
    p.add_argument("--workers", type=int, default=10)
    main(p.parse_args())
