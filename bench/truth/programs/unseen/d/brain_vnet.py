"""V-Net on made-up brain scans: fp16 with a scaler, deep supervision, checkpointed stages, then whole scans at once."""

import argparse
import logging

import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.checkpoint import checkpoint
from torch.utils.data import DataLoader, Dataset

logging.basicConfig(level=logging.INFO, format="%(asctime)s %(message)s")
log = logging.getLogger("vnet")


class Scans(Dataset):
    def __init__(self, count, side, seed):
        self.count, self.side, self.seed = count, side, seed

    def __len__(self):
        return self.count

    def __getitem__(self, i):
        g = torch.Generator().manual_seed(self.seed + i)
        axis = torch.linspace(-1, 1, self.side)
        z, y, x = torch.meshgrid(axis, axis, axis, indexing="ij")
        cz, cy, cx, r = (torch.rand(4, generator=g) - 0.5).tolist()
        distance = ((z - cz) ** 2 + (y - cy) ** 2 + (x - cx) ** 2).sqrt()
        label = (distance < 0.4 + r / 4).long() + (distance < 0.2 + r / 8).long()
        scan = label.float() + 0.5 * torch.randn(4, *label.shape, generator=g)
        return scan, label


class Stage(nn.Module):
    def __init__(self, channels, convs):
        super().__init__()
        layers = []
        for _ in range(convs):
            layers += [
                nn.Conv3d(channels, channels, 3, padding=1),
                nn.InstanceNorm3d(channels, affine=True),
                nn.PReLU(channels),
            ]
        self.body = nn.Sequential(*layers)

    def forward(self, x):
        return x + self.body(x)


class VNet(nn.Module):
    def __init__(self, cin, classes, width, checkpointed):
        super().__init__()
        sizes = [width, 2 * width, 4 * width, 8 * width]
        self.checkpointed = checkpointed
        self.enter = nn.Conv3d(cin, width, 3, padding=1)
        self.encoder = nn.ModuleList([Stage(c, min(i + 1, 3)) for i, c in enumerate(sizes)])
        self.down = nn.ModuleList([nn.Conv3d(a, b, 2, 2) for a, b in zip(sizes, sizes[1:])])
        self.up = nn.ModuleList([nn.ConvTranspose3d(b, a, 2, 2) for a, b in zip(sizes, sizes[1:])])
        self.mix = nn.ModuleList([nn.Conv3d(2 * c, c, 1) for c in sizes[:-1]])
        self.decoder = nn.ModuleList([Stage(c, 2) for c in sizes[:-1]])
        self.heads = nn.ModuleList([nn.Conv3d(c, classes, 1) for c in sizes[:-1]])

    def stage(self, module, x):
        if self.checkpointed and self.training:
            return checkpoint(module, x, use_reentrant=False)
        return module(x)

    def forward(self, x):
        x, kept = self.enter(x), []
        for i, module in enumerate(self.encoder):
            x = self.stage(module, x)
            if i < len(self.down):
                kept.append(x)
                x = self.down[i](x)
        outputs = []
        for i in reversed(range(len(self.up))):
            x = self.mix[i](torch.cat([self.up[i](x), kept.pop()], 1))
            x = self.stage(self.decoder[i], x)
            outputs.append(self.heads[i](x))
        return outputs[::-1]


def dice_loss(logits, label):
    p = logits.float().softmax(1)
    truth = F.one_hot(label, p.shape[1]).permute(0, 4, 1, 2, 3).float()
    overlap = (p * truth).sum((2, 3, 4))
    return 1 - ((2 * overlap + 1) / (p.sum((2, 3, 4)) + truth.sum((2, 3, 4)) + 1)).mean()


def supervised_loss(outputs, label):
    total = 0.0
    for level, logits in enumerate(outputs):
        small = label[:, :: 2**level, :: 2**level, :: 2**level]
        total = (
            total + (dice_loss(logits, small) + F.cross_entropy(logits.float(), small)) / 2**level
        )
    return total


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--patch", type=int, default=96)
    p.add_argument("--whole", type=int, default=160)
    p.add_argument("--scans", type=int, default=24)
    p.add_argument("--batch", type=int, default=3)
    p.add_argument("--width", type=int, default=24)
    p.add_argument("--epochs", type=int, default=2)
    p.add_argument("--no-checkpoint", action="store_true")
    a = p.parse_args()
    torch.manual_seed(0)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    train = DataLoader(Scans(a.scans, a.patch, 0), a.batch, shuffle=True, num_workers=4)
    model = VNet(4, 3, a.width, not a.no_checkpoint).to(device)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.99, nesterov=True)
    scaler = torch.amp.GradScaler(enabled=device.type == "cuda")
    for epoch in range(a.epochs):
        model.train()
        for scan, label in train:
            scan, label = scan.to(device), label.to(device)
            optimizer.zero_grad()
            with torch.autocast(device.type, dtype=torch.float16, enabled=device.type == "cuda"):
                outputs = model(scan)
            loss = supervised_loss(outputs, label)
            scaler.scale(loss).backward()
            scaler.unscale_(optimizer)
            nn.utils.clip_grad_norm_(model.parameters(), 12.0)
            scaler.step(optimizer)
            scaler.update()
        log.info("epoch %d: loss %.4f, scale %.0f", epoch, loss.item(), scaler.get_scale())
    model.eval()
    with torch.no_grad():
        for scan, label in DataLoader(Scans(2, a.whole, 500), 1):
            with torch.autocast(device.type, dtype=torch.float16, enabled=device.type == "cuda"):
                guess = model(scan.to(device))[0].argmax(1)
            overlap = ((guess > 0) & (label.to(device) > 0)).sum() * 2
            dice = overlap / ((guess > 0).sum() + (label > 0).sum().to(device)).clamp(min=1)
            log.info("whole scan: Dice %.3f", dice.item())
    torch.save(model.state_dict(), "vnet.pt")


if __name__ == "__main__":
    main()
