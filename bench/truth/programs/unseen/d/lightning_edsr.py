"""Super-resolution with Lightning: EDSR learns from small patches in fp16, and is judged on whole pictures."""

import argparse

import lightning.pytorch as pl
import torch
import torch.nn.functional as F
from lightning.pytorch.callbacks import ModelCheckpoint, TQDMProgressBar
from torch import nn
from torch.utils.data import DataLoader, Dataset


class Patches(Dataset):
    def __init__(self, count, height, width, scale, seed):
        self.count, self.shape, self.scale, self.seed = count, (height, width), scale, seed

    def __len__(self):
        return self.count

    def __getitem__(self, i):
        g = torch.Generator().manual_seed(self.seed + i)
        coarse = torch.rand(1, 3, 16, 16, generator=g)
        sharp = F.interpolate(coarse, size=self.shape, mode="nearest")
        small = F.interpolate(sharp, scale_factor=1 / self.scale, mode="area")
        return small[0], sharp[0]


class ResBlock(nn.Module):
    def __init__(self, width, scale):
        super().__init__()
        self.body = nn.Sequential(
            nn.Conv2d(width, width, 3, padding=1),
            nn.ReLU(True),
            nn.Conv2d(width, width, 3, padding=1),
        )
        self.scale = scale

    def forward(self, x):
        return x + self.body(x).mul(self.scale)


class EDSR(nn.Module):
    def __init__(self, width, blocks, scale):
        super().__init__()
        self.head = nn.Conv2d(3, width, 3, padding=1)
        self.body = nn.Sequential(
            *[ResBlock(width, 0.1) for _ in range(blocks)], nn.Conv2d(width, width, 3, padding=1)
        )
        up = []
        for _ in range(scale.bit_length() - 1):
            up += [nn.Conv2d(width, 4 * width, 3, padding=1), nn.PixelShuffle(2)]
        self.tail = nn.Sequential(*up, nn.Conv2d(width, 3, 3, padding=1))

    def forward(self, x):
        x = self.head(x - 0.5)
        return self.tail(x + self.body(x)) + 0.5


class SuperResolution(pl.LightningModule):
    def __init__(self, width=128, blocks=16, scale=4, lr=2e-4):
        super().__init__()
        self.save_hyperparameters()
        self.net = EDSR(width, blocks, scale)

    def forward(self, x):
        return self.net(x)

    def training_step(self, batch, batch_idx):
        small, sharp = batch
        loss = F.l1_loss(self(small), sharp)
        self.log("train/l1", loss, on_step=True, on_epoch=True)
        return loss

    def validation_step(self, batch, batch_idx):
        small, sharp = batch
        out = self(small).clamp(0, 1)
        error = F.mse_loss(out.float(), sharp).clamp(min=1e-10)
        self.log("val/psnr", -10 * torch.log10(error), batch_size=len(small))

    def test_step(self, batch, batch_idx):
        small, sharp = batch
        views = [small, small.flip(-1), small.flip(-2), small.flip(-1, -2)]
        dims = [[], [-1], [-2], [-1, -2]]
        out = sum(self(v).flip(d) if d else self(v) for v, d in zip(views, dims)) / 4
        self.log("test/l1", F.l1_loss(out, sharp), batch_size=len(small))

    def configure_optimizers(self):
        optimizer = torch.optim.Adam(self.parameters(), lr=self.hparams.lr)
        steps = torch.optim.lr_scheduler.MultiStepLR(optimizer, [2, 3], gamma=0.5)
        return [optimizer], [steps]


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--patches", type=int, default=800)
    p.add_argument("--patch", type=int, default=192)
    p.add_argument("--height", type=int, default=1024)
    p.add_argument("--width", type=int, default=1536)
    p.add_argument("--features", type=int, default=128)
    p.add_argument("--blocks", type=int, default=16)
    p.add_argument("--batch", type=int, default=16)
    p.add_argument("--epochs", type=int, default=2)
    a = p.parse_args()
    pl.seed_everything(5, workers=True)
    gpu = torch.cuda.is_available()
    train = DataLoader(
        Patches(a.patches, a.patch, a.patch, 4, 0), a.batch, shuffle=True, num_workers=3
    )
    val = DataLoader(Patches(6, a.height, a.width, 4, 10**6), 1, num_workers=1)
    test = DataLoader(Patches(3, a.height, a.width, 4, 10**7), 1)
    trainer = pl.Trainer(
        max_epochs=a.epochs,
        accelerator="gpu" if gpu else "cpu",
        devices=1,
        precision="16-mixed" if gpu else "32-true",
        accumulate_grad_batches=2,
        gradient_clip_val=0.5,
        gradient_clip_algorithm="norm",
        callbacks=[
            ModelCheckpoint("edsr", monitor="val/psnr", mode="max", save_last=True),
            TQDMProgressBar(refresh_rate=20),
        ],
        logger=False,
    )
    model = SuperResolution(a.features, a.blocks)
    trainer.fit(model, train, val)
    trainer.test(model, test)


if __name__ == "__main__":
    main()
