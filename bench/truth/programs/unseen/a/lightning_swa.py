"""Lightning: a DenseNet-like classifier with validation, checkpoints, early stopping and averaged weights."""

import argparse

import lightning as L
import torch
import torch.nn.functional as F
from lightning.pytorch.callbacks import (
    EarlyStopping,
    LearningRateMonitor,
    ModelCheckpoint,
    StochasticWeightAveraging,
)
from lightning.pytorch.loggers import CSVLogger
from torch import nn
from torch.utils.data import DataLoader, TensorDataset
from torchmetrics.classification import MulticlassAccuracy


class DenseLayer(nn.Module):
    def __init__(self, channels, growth):
        super().__init__()
        self.body = nn.Sequential(
            nn.BatchNorm2d(channels),
            nn.ReLU(inplace=True),
            nn.Conv2d(channels, 4 * growth, 1, bias=False),
            nn.BatchNorm2d(4 * growth),
            nn.ReLU(inplace=True),
            nn.Conv2d(4 * growth, growth, 3, padding=1, bias=False),
        )

    def forward(self, x):
        return torch.cat([x, self.body(x)], 1)


def dense_net(growth=24, blocks=(6, 8, 6), classes=20):
    channels = 2 * growth
    layers = [nn.Conv2d(3, channels, 3, stride=2, padding=1, bias=False)]
    for i, count in enumerate(blocks):
        for _ in range(count):
            layers.append(DenseLayer(channels, growth))
            channels += growth
        if i < len(blocks) - 1:
            layers += [
                nn.BatchNorm2d(channels),
                nn.Conv2d(channels, channels // 2, 1),
                nn.AvgPool2d(2),
            ]
            channels //= 2
    layers += [
        nn.BatchNorm2d(channels),
        nn.ReLU(),
        nn.AdaptiveAvgPool2d(1),
        nn.Flatten(),
        nn.Linear(channels, classes),
    ]
    return nn.Sequential(*layers)


class Classifier(L.LightningModule):
    def __init__(self, growth=24, lr=0.1, classes=20):
        super().__init__()
        self.save_hyperparameters()
        self.net = dense_net(growth, classes=classes)
        self.train_acc = MulticlassAccuracy(classes)
        self.val_acc = MulticlassAccuracy(classes)

    def training_step(self, batch, batch_idx):
        x, y = batch
        logits = self.net(x)
        loss = F.cross_entropy(logits, y)
        self.train_acc(logits, y)
        self.log("train/loss", loss, prog_bar=True)
        self.log("train/acc", self.train_acc, on_step=False, on_epoch=True)
        return loss

    def validation_step(self, batch, batch_idx):
        x, y = batch
        logits = self.net(x)
        self.val_acc(logits, y)
        self.log("val/loss", F.cross_entropy(logits, y), prog_bar=True)
        self.log("val/acc", self.val_acc)

    def configure_optimizers(self):
        opt = torch.optim.SGD(self.parameters(), self.hparams.lr, momentum=0.9, weight_decay=1e-4)
        sched = torch.optim.lr_scheduler.MultiStepLR(opt, [2, 3], 0.2)
        return {"optimizer": opt, "lr_scheduler": sched}


class Pictures(L.LightningDataModule):
    def __init__(self, count, size, batch, classes=20):
        super().__init__()
        self.count, self.size, self.batch, self.classes = count, size, batch, classes

    def setup(self, stage=None):
        x = torch.randn(self.count, 3, self.size, self.size)
        y = torch.randint(0, self.classes, (self.count,))
        cut = int(self.count * 0.75)
        self.train_set, self.val_set = (
            TensorDataset(x[:cut], y[:cut]),
            TensorDataset(x[cut:], y[cut:]),
        )

    def train_dataloader(self):
        return DataLoader(
            self.train_set, self.batch, shuffle=True, num_workers=2, persistent_workers=True
        )

    def val_dataloader(self):
        return DataLoader(self.val_set, self.batch * 2, num_workers=2, persistent_workers=True)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--growth", type=int, default=24)
    parser.add_argument("--count", type=int, default=2000)
    parser.add_argument("--size", type=int, default=96)
    parser.add_argument("--batch", type=int, default=128)
    parser.add_argument("--max-epochs", type=int, default=4)
    args = parser.parse_args()
    L.seed_everything(2, workers=True)
    trainer = L.Trainer(
        max_epochs=args.max_epochs,
        accelerator="auto",
        devices=1,
        precision="16-mixed" if torch.cuda.is_available() else "32-true",
        gradient_clip_val=1.0,
        logger=CSVLogger("logs"),
        log_every_n_steps=4,
        enable_progress_bar=False,
        callbacks=[
            ModelCheckpoint(monitor="val/acc", mode="max", save_top_k=1, save_last=True),
            EarlyStopping("val/loss", patience=3),
            StochasticWeightAveraging(swa_lrs=0.02, swa_epoch_start=0.5),
            LearningRateMonitor("epoch"),
        ],
    )
    model = Classifier(args.growth)
    data = Pictures(args.count, args.size, args.batch)
    trainer.fit(model, data)
    print(trainer.validate(model, data, verbose=False))


if __name__ == "__main__":
    main()
