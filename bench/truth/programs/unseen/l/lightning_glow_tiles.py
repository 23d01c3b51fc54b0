"""Glow (actnorm, invertible 1x1 convolutions, affine couplings) as a density of ceramic tiles; LightningModule, bits per dimension, samples after each epoch."""

import math
from argparse import ArgumentParser

import lightning as L
import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


class ActNorm(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.bias = nn.Parameter(torch.zeros(1, c, 1, 1))
        self.logs = nn.Parameter(torch.zeros(1, c, 1, 1))
        self.register_buffer("ready", torch.tensor(False))

    def forward(self, x, reverse=False):
        if self.training and not self.ready:
            with torch.no_grad():
                self.bias.copy_(-x.mean((0, 2, 3), keepdim=True))
                self.logs.copy_(-(x.std((0, 2, 3), keepdim=True) + 1e-6).log())
                self.ready.fill_(True)
        if reverse:
            return x * (-self.logs).exp() - self.bias
        return (x + self.bias) * self.logs.exp(), self.logs.sum() * x.shape[2] * x.shape[3]


class Rotate(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.weight = nn.Parameter(torch.linalg.qr(torch.randn(c, c))[0])

    def forward(self, x, reverse=False):
        if reverse:
            return F.conv2d(x, torch.inverse(self.weight)[..., None, None])
        return F.conv2d(x, self.weight[..., None, None]), torch.linalg.slogdet(self.weight)[
            1
        ] * x.shape[2] * x.shape[3]


class Coupling(nn.Module):
    def __init__(self, c, hidden):
        super().__init__()
        self.net = nn.Sequential(
            nn.Conv2d(c // 2, hidden, 3, padding=1),
            nn.ReLU(),
            nn.Conv2d(hidden, hidden, 1),
            nn.ReLU(),
            nn.Conv2d(hidden, c, 3, padding=1),
        )
        nn.init.zeros_(self.net[-1].weight)
        nn.init.zeros_(self.net[-1].bias)

    def forward(self, x, reverse=False):
        a, b = x.chunk(2, 1)
        shift, scale = self.net(a).chunk(2, 1)
        scale = torch.sigmoid(scale + 2)
        if reverse:
            return torch.cat([a, b / scale - shift], 1)
        return torch.cat([a, (b + shift) * scale], 1), scale.log().flatten(1).sum(1)


class Glow(nn.Module):
    def __init__(self, depth, levels, hidden, c=3):
        super().__init__()
        self.levels = nn.ModuleList()
        for level in range(levels):
            c *= 4
            steps = [m for _ in range(depth) for m in (ActNorm(c), Rotate(c), Coupling(c, hidden))]
            self.levels.append(nn.ModuleList(steps))
            if level < levels - 1:
                c //= 2

    def forward(self, x):
        logdet, zs = 0.0, []
        for i, steps in enumerate(self.levels):
            x = F.pixel_unshuffle(x, 2)
            for step in steps:
                x, d = step(x)
                logdet = logdet + d
            if i < len(self.levels) - 1:
                x, z = x.chunk(2, 1)
                zs.append(z)
        return zs + [x], logdet

    def reverse(self, zs):
        x = zs[-1]
        for i in reversed(range(len(self.levels))):
            if i < len(self.levels) - 1:
                x = torch.cat([x, zs[i]], 1)
            for step in reversed(self.levels[i]):
                x = step(x, reverse=True)
            x = F.pixel_shuffle(x, 2)
        return x


class GlowModule(L.LightningModule):
    def __init__(self, depth, levels, hidden, size, lr=1e-4):
        super().__init__()
        self.save_hyperparameters()
        self.flow = Glow(depth, levels, hidden)

    def bpd(self, x):
        x = x / 256 - 0.5 + torch.rand_like(x) / 256
        zs, logdet = self.flow(x)
        prior = sum((-0.5 * (z**2 + math.log(2 * math.pi))).flatten(1).sum(1) for z in zs)
        n = x[0].numel()
        return (-(prior + logdet) / n / math.log(2) + 8).mean()

    def training_step(self, batch, i):
        loss = self.bpd(batch[0].float())
        self.log("bpd", loss)
        return loss

    def validation_step(self, batch, i):
        self.log("val_bpd", self.bpd(batch[0].float()), prog_bar=True)
        if i == 0:
            zs, _ = self.flow(batch[0].float() / 256 - 0.5)
            pictures = self.flow.reverse([0.7 * torch.randn_like(z) for z in zs])
            self.log("sample_std", pictures.std())

    def on_validation_end(self):
        print({k: round(float(v), 4) for k, v in self.trainer.callback_metrics.items()})

    def configure_optimizers(self):
        opt = torch.optim.Adamax(self.parameters(), lr=self.hparams.lr)
        warm = torch.optim.lr_scheduler.LambdaLR(opt, lambda s: min(1.0, (s + 1) / 10))
        return {"optimizer": opt, "lr_scheduler": {"scheduler": warm, "interval": "step"}}


def tiles(n, size, seed):
    g = torch.Generator().manual_seed(seed)
    quarter = torch.randint(0, 256, (n, 3, size // 8, size // 8), generator=g)
    half = torch.cat([quarter, quarter.flip(-1)], -1)
    return TensorDataset(
        torch.cat([half, half.flip(-2)], -2)
        .repeat_interleave(4, 2)
        .repeat_interleave(4, 3)
        .to(torch.uint8)
    )


def main():
    ap = ArgumentParser()
    ap.add_argument("--depth", type=int, default=16)
    ap.add_argument("--levels", type=int, default=3)
    ap.add_argument("--hidden", type=int, default=512)
    ap.add_argument("--size", type=int, default=64)
    ap.add_argument("--batch", type=int, default=32)
    ap.add_argument("--epochs", type=int, default=2)
    ap.add_argument("--steps", type=int, default=14)
    a = ap.parse_args()
    L.seed_everything(3)
    train = DataLoader(tiles(a.batch * a.steps, a.size, 1), a.batch, shuffle=True)
    val = DataLoader(tiles(a.batch * 2, a.size, 2), a.batch)
    trainer = L.Trainer(
        max_epochs=a.epochs,
        gradient_clip_val=50,
        gradient_clip_algorithm="norm",
        logger=False,
        enable_checkpointing=False,
        enable_progress_bar=False,
        num_sanity_val_steps=0,
    )
    trainer.fit(GlowModule(a.depth, a.levels, a.hidden, a.size), train, val)


if __name__ == "__main__":
    main()
