"""3-D attention U-Net for organs in CT volumes: patches, deep supervision, activation checkpointing, bf16,
sliding-window inference with Gaussian weights at the end of every epoch."""

import argparse
import itertools
import logging
import math

import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.checkpoint import checkpoint
from torch.utils.data import DataLoader, IterableDataset, get_worker_info

logger = logging.getLogger(__name__)


def synthetic_volume(shape, classes, generator):
    d, h, w = shape
    zz, yy, xx = torch.meshgrid(torch.arange(d), torch.arange(h), torch.arange(w), indexing="ij")
    label = torch.zeros(shape, dtype=torch.uint8)
    for c in range(1, classes):
        center = torch.rand(3, generator=generator) * torch.tensor([d, h, w])
        radius = (0.1 + 0.15 * torch.rand(1, generator=generator).item()) * min(shape)
        dist = (zz - center[0]) ** 2 + (yy - center[1]) ** 2 + (xx - center[2]) ** 2
        label[dist < radius**2] = c
    image = label.float() / classes + 0.2 * torch.randn(shape, generator=generator)
    return image[None], label


class PatchDataset(IterableDataset):
    """Endless patches, two thirds of them centred on foreground."""

    def __init__(self, volumes, patch):
        self.volumes, self.patch = volumes, patch

    def __iter__(self):
        info = get_worker_info()
        g = torch.Generator().manual_seed(100 + (info.id if info else 0))
        p = self.patch
        while True:
            image, label = self.volumes[int(torch.randint(len(self.volumes), (1,), generator=g))]
            corner = [int(torch.randint(0, s - p + 1, (1,), generator=g)) for s in label.shape]
            if torch.rand(1, generator=g).item() < 0.67:
                fg = label.nonzero()
                if len(fg):
                    centre = fg[int(torch.randint(len(fg), (1,), generator=g))]
                    corner = [
                        min(max(int(c) - p // 2, 0), s - p) for c, s in zip(centre, label.shape)
                    ]
            sl = tuple(slice(c, c + p) for c in corner)
            x, y = image[(slice(None), *sl)], label[sl]
            for axis in range(3):
                if torch.rand(1, generator=g).item() < 0.5:
                    x, y = x.flip(axis + 1), y.flip(axis)
            yield x.contiguous(), y.long()


class ConvBlock(nn.Module):
    def __init__(self, cin, cout):
        super().__init__()
        self.net = nn.Sequential(
            nn.Conv3d(cin, cout, 3, padding=1, bias=False),
            nn.InstanceNorm3d(cout, affine=True),
            nn.LeakyReLU(0.01, inplace=True),
            nn.Conv3d(cout, cout, 3, padding=1, bias=False),
            nn.InstanceNorm3d(cout, affine=True),
            nn.LeakyReLU(0.01, inplace=True),
        )

    def forward(self, x):
        return self.net(x)


class AttentionGate(nn.Module):
    def __init__(self, g, x, mid):
        super().__init__()
        self.wg, self.wx, self.psi = (
            nn.Conv3d(g, mid, 1),
            nn.Conv3d(x, mid, 1),
            nn.Conv3d(mid, 1, 1),
        )

    def forward(self, g, x):
        return x * torch.sigmoid(self.psi(F.relu(self.wg(g) + self.wx(x))))


class AttentionUNet(nn.Module):
    def __init__(self, classes, width, depth=4, use_checkpoint=True):
        super().__init__()
        ch = [min(width * 2**i, 320) for i in range(depth + 1)]
        self.use_checkpoint = use_checkpoint
        self.enc = nn.ModuleList([ConvBlock(a, b) for a, b in zip([1] + ch[:-1], ch)])
        self.up = nn.ModuleList([nn.ConvTranspose3d(b, a, 2, 2) for a, b in zip(ch[:-1], ch[1:])])
        self.gate = nn.ModuleList([AttentionGate(a, a, max(a // 2, 4)) for a in ch[:-1]])
        self.dec = nn.ModuleList([ConvBlock(2 * a, a) for a in ch[:-1]])
        self.heads = nn.ModuleList([nn.Conv3d(a, classes, 1) for a in ch[:-1]])

    def run(self, module, x):
        if self.use_checkpoint and self.training:
            return checkpoint(module, x, use_reentrant=False)
        return module(x)

    def forward(self, x):
        skips = []
        for i, block in enumerate(self.enc):
            x = self.run(block, F.max_pool3d(x, 2) if i else x)
            skips.append(x)
        outs = []
        x = skips.pop()
        for i in reversed(range(len(self.up))):
            x = self.up[i](x)
            s = self.gate[i](x, skips.pop())
            x = self.run(self.dec[i], torch.cat([x, s], 1))
            outs.append(self.heads[i](x))
        return outs[::-1] if self.training else outs[-1]


def dice_ce(logits, target):
    ce = F.cross_entropy(logits, target)
    p = logits.softmax(1)
    onehot = F.one_hot(target, logits.shape[1]).permute(0, 4, 1, 2, 3).to(p.dtype)
    inter = (p * onehot).sum((2, 3, 4))
    dice = (2 * inter + 1e-5) / (p.sum((2, 3, 4)) + onehot.sum((2, 3, 4)) + 1e-5)
    return ce + 1 - dice[:, 1:].mean()


def deep_loss(outs, target):
    total, weights = 0, 0
    for i, out in enumerate(outs):
        t = (
            target
            if i == 0
            else F.interpolate(target[:, None].float(), size=out.shape[2:], mode="nearest")[
                :, 0
            ].long()
        )
        total = total + dice_ce(out.float(), t) / 2**i
        weights += 1 / 2**i
    return total / weights


def starts(size, patch, overlap=0.5):
    step = max(1, int(patch * (1 - overlap)))
    n = max(1, math.ceil((size - patch) / step) + 1)
    return sorted({min(i * step, size - patch) for i in range(n)})


@torch.no_grad()
def sliding_window(model, image, patch, classes, device, sw_batch=4):
    model.eval()
    image = image.to(device)
    axis = torch.linspace(-1, 1, patch, device=device)
    g = torch.exp(-(axis**2) / (2 * 0.25**2))
    weight = g[:, None, None] * g[None, :, None] * g[None, None, :]
    scores = torch.zeros(classes, *image.shape[1:], device=device)
    norm = torch.zeros(image.shape[1:], device=device)
    corners = list(itertools.product(*[starts(s, patch) for s in image.shape[1:]]))
    for i in range(0, len(corners), sw_batch):
        part = corners[i : i + sw_batch]
        x = torch.stack([image[:, a : a + patch, b : b + patch, c : c + patch] for a, b, c in part])
        with torch.autocast("cuda", dtype=torch.bfloat16):
            out = model(x)
        for (a, b, c), o in zip(part, out.float().softmax(1)):
            scores[:, a : a + patch, b : b + patch, c : c + patch] += o * weight
            norm[a : a + patch, b : b + patch, c : c + patch] += weight
    return (scores / norm).argmax(0)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--patch", type=int, default=112)
    parser.add_argument("--volume", type=int, nargs=3, default=[144, 192, 192])
    parser.add_argument("--volumes", type=int, default=5)
    parser.add_argument("--classes", type=int, default=6)
    parser.add_argument("--width", type=int, default=32)
    parser.add_argument("--batch", type=int, default=2)
    parser.add_argument("--steps", type=int, default=20)
    parser.add_argument("--epochs", type=int, default=2)
    parser.add_argument("--workers", type=int, default=3)
    parser.add_argument("--no-checkpoint", action="store_true")
    args = parser.parse_args()
    logging.basicConfig(level=logging.INFO)
    device = torch.device("cuda")
    torch.manual_seed(3)
    g = torch.Generator().manual_seed(3)
    volumes = [synthetic_volume(args.volume, args.classes, g) for _ in range(args.volumes)]
    train, held_out = volumes[:-1], volumes[-1]
    loader = iter(
        DataLoader(
            PatchDataset(train, args.patch),
            batch_size=args.batch,
            num_workers=args.workers,
            pin_memory=True,
        )
    )

    model = AttentionUNet(args.classes, args.width, use_checkpoint=not args.no_checkpoint).to(
        device
    )
    optimizer = torch.optim.SGD(
        model.parameters(), lr=0.01, momentum=0.99, nesterov=True, weight_decay=3e-5
    )
    scheduler = torch.optim.lr_scheduler.PolynomialLR(
        optimizer, total_iters=args.epochs * args.steps, power=0.9
    )
    for epoch in range(args.epochs):
        model.train()
        for step in range(args.steps):
            x, y = (t.to(device, non_blocking=True) for t in next(loader))
            optimizer.zero_grad(set_to_none=True)
            with torch.autocast("cuda", dtype=torch.bfloat16):
                outs = model(x)
            loss = deep_loss(outs, y)
            assert torch.isfinite(loss), "loss diverged"
            loss.backward()
            torch.nn.utils.clip_grad_norm_(model.parameters(), 12)
            optimizer.step()
            scheduler.step()
            if step % 5 == 0:
                logger.info(
                    "epoch %d step %d loss %.4f lr %.5f",
                    epoch,
                    step,
                    loss.item(),
                    scheduler.get_last_lr()[0],
                )
        pred = sliding_window(model, held_out[0], args.patch, args.classes, device)
        truth = held_out[1].to(device)
        dice = []
        for c in range(1, args.classes):
            a, b = pred == c, truth == c
            dice.append((2 * (a & b).sum() / (a.sum() + b.sum()).clamp(min=1)).item())
        logger.info("epoch %d dice per class: %s", epoch, " ".join(f"{d:.3f}" for d in dice))


if __name__ == "__main__":
    main()
