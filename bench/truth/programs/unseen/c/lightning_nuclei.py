"""Nuclei in microscope pictures: a U-Net in Lightning with a data module, bf16, accumulation and checkpoints."""

import argparse

import lightning as L
import torch
import torch.nn.functional as F
from lightning.pytorch.callbacks import LearningRateMonitor, ModelCheckpoint
from lightning.pytorch.loggers import CSVLogger
from torch import nn
from torch.utils.data import DataLoader, Dataset


class Cells(Dataset):
    def __init__(self, count, size, seed):
        self.count, self.size, self.seed = count, size, seed
        line = torch.arange(size)
        self.y, self.x = torch.meshgrid(line, line, indexing="ij")

    def __len__(self):
        return self.count

    def __getitem__(self, i):
        g = torch.Generator().manual_seed(self.seed + i)
        mask = torch.zeros(self.size, self.size)
        for cy, cx, r in (torch.rand(6, 3, generator=g)).tolist():
            inside = (self.y - cy * self.size) ** 2 + (self.x - cx * self.size) ** 2
            mask[inside < (4 + r * self.size / 10) ** 2] = 1
        return (mask + 0.5 * torch.randn(mask.shape, generator=g))[None], mask[None]


class CellData(L.LightningDataModule):
    def __init__(self, count, size, batch):
        super().__init__()
        self.save_hyperparameters()

    def setup(self, stage=None):
        h = self.hparams
        self.train_set = Cells(h.count, h.size, 0)
        self.val_set = Cells(h.count // 5, h.size, 50_000)

    def train_dataloader(self):
        return DataLoader(
            self.train_set,
            self.hparams.batch,
            shuffle=True,
            num_workers=2,
            drop_last=True,
        )

    def val_dataloader(self):
        return DataLoader(self.val_set, self.hparams.batch * 2, num_workers=2)

    test_dataloader = val_dataloader


def double(i, o):
    return nn.Sequential(
        nn.Conv2d(i, o, 3, padding=1, bias=False),
        nn.GroupNorm(8, o),
        nn.SiLU(),
        nn.Conv2d(o, o, 3, padding=1, bias=False),
        nn.GroupNorm(8, o),
        nn.SiLU(),
    )


class UNet(nn.Module):
    def __init__(self, width, levels):
        super().__init__()
        sizes = [width * 2**k for k in range(levels)]
        self.down = nn.ModuleList(double(i, o) for i, o in zip([1, *sizes], sizes, strict=False))
        self.up = nn.ModuleList(nn.ConvTranspose2d(2 * c, c, 2, 2) for c in reversed(sizes[:-1]))
        self.merge = nn.ModuleList(double(2 * c, c) for c in reversed(sizes[:-1]))
        self.out = nn.Conv2d(width, 1, 1)

    def forward(self, x):
        skips = []
        for k, block in enumerate(self.down):
            x = block(x if k == 0 else F.max_pool2d(x, 2))
            skips.append(x)
        skips.pop()
        for up, merge in zip(self.up, self.merge, strict=True):
            x = merge(torch.cat([skips.pop(), up(x)], 1))
        return self.out(x)


class Segmenter(L.LightningModule):
    def __init__(self, width=48, levels=5, lr=1e-3):
        super().__init__()
        self.save_hyperparameters()
        self.net = UNet(width, levels)

    def shared(self, batch):
        x, y = batch
        logits = self.net(x)
        p = logits.sigmoid()
        dice = 1 - (2 * (p * y).sum((1, 2, 3)) + 1) / (p.sum((1, 2, 3)) + y.sum((1, 2, 3)) + 1)
        return F.binary_cross_entropy_with_logits(logits, y) + dice.mean(), dice.mean()

    def training_step(self, batch, _):
        loss, dice = self.shared(batch)
        self.log_dict({"train/loss": loss, "train/dice": dice}, prog_bar=True)
        return loss

    def validation_step(self, batch, _):
        loss, _ = self.shared(batch)
        self.log("val_loss", loss)

    def test_step(self, batch, _):
        flips = [batch, (batch[0].flip(-1), batch[1].flip(-1))]
        self.log("test_loss", torch.stack([self.shared(b)[0] for b in flips]).mean())

    def configure_optimizers(self):
        optimizer = torch.optim.AdamW(self.parameters(), lr=self.hparams.lr)
        steps = self.trainer.estimated_stepping_batches
        schedule = torch.optim.lr_scheduler.OneCycleLR(
            optimizer, self.hparams.lr, total_steps=steps
        )
        return {
            "optimizer": optimizer,
            "lr_scheduler": {"scheduler": schedule, "interval": "step"},
        }


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--count", type=int, default=200)
    p.add_argument("--size", type=int, default=256)
    p.add_argument("--batch", type=int, default=12)
    p.add_argument("--width", type=int, default=48)
    p.add_argument("--levels", type=int, default=5)
    p.add_argument("--epochs", type=int, default=3)
    a = p.parse_args()
    L.seed_everything(9)
    gpu = torch.cuda.is_available()
    best = ModelCheckpoint("checkpoints", monitor="val_loss", save_top_k=1, save_last=True)
    trainer = L.Trainer(
        accelerator="gpu" if gpu else "cpu",
        devices=1,
        max_epochs=a.epochs,
        precision="bf16-mixed",
        accumulate_grad_batches=2,
        gradient_clip_val=1.0,
        logger=CSVLogger("logs"),
        callbacks=[best, LearningRateMonitor("step")],
        log_every_n_steps=4,
        enable_progress_bar=False,
    )
    data = CellData(a.count, a.size, a.batch)
    trainer.fit(Segmenter(a.width, a.levels), datamodule=data)
    trainer.test(datamodule=data, ckpt_path="best", weights_only=False)


if __name__ == "__main__":
    main()
