"""Orchid species with a Hiera transformer in Lightning: bf16-mixed, mixup on the device, one-cycle schedule, checkpoints and early stopping."""

import argparse
import tempfile

import lightning as L
import torch
import torch.nn.functional as F
from lightning.pytorch.callbacks import EarlyStopping, LearningRateMonitor, ModelCheckpoint
from lightning.pytorch.loggers import CSVLogger
from torch.utils.data import DataLoader, Dataset
from transformers import HieraConfig, HieraForImageClassification

SPECIES = 40


class Orchids(Dataset):
    def __init__(self, n, seed):
        self.n, self.seed = n, seed

    def __len__(self):
        return self.n

    def __getitem__(self, i):
        g = torch.Generator().manual_seed(self.seed + 31 * i)
        y = i % SPECIES
        petal = torch.randn(3, 28, 28, generator=g) + y / SPECIES
        image = F.interpolate(petal[None], size=224, mode="nearest")[0]
        return image, y


class OrchidData(L.LightningDataModule):
    def __init__(self, batch, train, val, workers):
        super().__init__()
        self.save_hyperparameters()

    def setup(self, stage=None):
        self.train_set = Orchids(self.hparams.train, 1)
        self.val_set = Orchids(self.hparams.val, 1_000_003)

    def train_dataloader(self):
        return DataLoader(
            self.train_set,
            self.hparams.batch,
            shuffle=True,
            num_workers=self.hparams.workers,
            pin_memory=True,
            drop_last=True,
        )

    def val_dataloader(self):
        return DataLoader(
            self.val_set, self.hparams.batch * 2, num_workers=self.hparams.workers, pin_memory=True
        )


class HieraModule(L.LightningModule):
    def __init__(self, embed_dim=96, depths=(1, 2, 7, 2), lr=8e-4, mixup=0.4, total=40):
        super().__init__()
        self.save_hyperparameters()
        self.model = HieraForImageClassification(
            HieraConfig(
                embed_dim=embed_dim, depths=list(depths), drop_path_rate=0.1, num_labels=SPECIES
            )
        )

    def forward(self, x):
        return self.model(pixel_values=x).logits

    def training_step(self, batch, _):
        x, y = batch
        lam = torch.distributions.Beta(self.hparams.mixup, self.hparams.mixup).sample().item()
        other = torch.randperm(len(x), device=x.device)
        logits = self(lam * x + (1 - lam) * x[other])
        loss = lam * F.cross_entropy(logits, y, label_smoothing=0.1)
        loss = loss + (1 - lam) * F.cross_entropy(logits, y[other], label_smoothing=0.1)
        self.log("train_loss", loss, prog_bar=True)
        return loss

    def validation_step(self, batch, _):
        x, y = batch
        logits = self(x)
        self.log_dict(
            {
                "val_loss": F.cross_entropy(logits, y),
                "val_acc": (logits.argmax(1) == y).float().mean(),
            }
        )

    def configure_optimizers(self):
        opt = torch.optim.AdamW(self.parameters(), lr=self.hparams.lr, weight_decay=0.05)
        sched = torch.optim.lr_scheduler.OneCycleLR(
            opt, self.hparams.lr, total_steps=self.hparams.total
        )
        return {"optimizer": opt, "lr_scheduler": {"scheduler": sched, "interval": "step"}}


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--batch", type=int, default=128)
    p.add_argument("--steps-per-epoch", type=int, default=15)
    p.add_argument("--epochs", type=int, default=2)
    p.add_argument("--embed", type=int, default=96)
    p.add_argument("--workers", type=int, default=6)
    p.add_argument("--precision", default="bf16-mixed")
    a = p.parse_args()
    L.seed_everything(23, workers=True)
    torch.set_float32_matmul_precision("medium")
    data = OrchidData(a.batch, a.batch * a.steps_per_epoch, a.batch * 4, a.workers)
    module = HieraModule(embed_dim=a.embed, total=a.steps_per_epoch * a.epochs)
    with tempfile.TemporaryDirectory() as folder:
        best = ModelCheckpoint(
            dirpath=folder, monitor="val_acc", mode="max", save_top_k=1, save_weights_only=True
        )
        trainer = L.Trainer(
            max_epochs=a.epochs,
            accelerator="auto",
            devices=1,
            precision=a.precision,
            gradient_clip_val=1.0,
            callbacks=[best, EarlyStopping("val_loss", patience=2), LearningRateMonitor("step")],
            logger=CSVLogger(folder),
            log_every_n_steps=5,
            enable_progress_bar=False,
        )
        trainer.fit(module, data)
        print("best", best.best_model_score)


if __name__ == "__main__":
    main()
