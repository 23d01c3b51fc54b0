"""Skin lesions with Lightning: a ConvNeXt, bf16, accumulation, a checkpoint of the best epoch, then the test set."""

import os

import lightning as L
import torch
import torch.nn.functional as F
from lightning.pytorch.callbacks import LearningRateMonitor, ModelCheckpoint
from lightning.pytorch.loggers import CSVLogger
from torch.utils.data import DataLoader, Dataset
from torchvision.models import convnext_tiny

SIZE = int(os.environ.get("SIZE", "224"))
IMAGES = int(os.environ.get("IMAGES", "1500"))
BATCH = int(os.environ.get("BATCH", "48"))
EPOCHS = int(os.environ.get("EPOCHS", "2"))


class Lesions(Dataset):
    def __init__(self, count, seed):
        self.count, self.seed = count, seed

    def __len__(self):
        return self.count

    def __getitem__(self, i):
        g = torch.Generator().manual_seed(self.seed + i)
        label = int(torch.randint(0, 7, (1,), generator=g))
        return torch.rand(3, SIZE, SIZE, generator=g) + label / 7, label


class LesionData(L.LightningDataModule):
    def __init__(self, batch_size, workers=3):
        super().__init__()
        self.batch_size, self.workers = batch_size, workers

    def setup(self, stage=None):
        self.train_set = Lesions(IMAGES, 0)
        self.val_set = Lesions(IMAGES // 5, 1_000_000)
        self.test_set = Lesions(IMAGES // 5, 2_000_000)

    def train_dataloader(self):
        return DataLoader(
            self.train_set, self.batch_size, shuffle=True, num_workers=self.workers, drop_last=True
        )

    def val_dataloader(self):
        return DataLoader(self.val_set, 2 * self.batch_size, num_workers=self.workers)

    def test_dataloader(self):
        return DataLoader(self.test_set, 4 * self.batch_size, num_workers=self.workers)


class LesionModel(L.LightningModule):
    def __init__(self, lr=4e-4, weight_decay=0.05):
        super().__init__()
        self.save_hyperparameters()
        self.model = convnext_tiny(weights=None, num_classes=7, stochastic_depth_prob=0.0)

    def forward(self, x):
        return self.model(x)

    def training_step(self, batch, batch_idx):
        x, y = batch
        loss = F.cross_entropy(self(x), y, label_smoothing=0.1)
        self.log("train_loss", loss, prog_bar=True)
        return loss

    def _evaluate(self, batch, name):
        x, y = batch
        logits = self(x)
        self.log(f"{name}_loss", F.cross_entropy(logits, y), prog_bar=True)
        self.log(f"{name}_acc", (logits.argmax(1) == y).float().mean(), prog_bar=True)

    def validation_step(self, batch, batch_idx):
        self._evaluate(batch, "val")

    def test_step(self, batch, batch_idx):
        x, y = batch
        # Four views of each picture.
        views = torch.cat([x, x.flip(-1), x.flip(-2), x.flip(-1, -2)])
        probabilities = self(views).softmax(1).view(4, len(x), -1).mean(0)
        self.log("test_acc", (probabilities.argmax(1) == y).float().mean())

    def configure_optimizers(self):
        optimizer = torch.optim.AdamW(
            self.parameters(), lr=self.hparams.lr, weight_decay=self.hparams.weight_decay
        )
        scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=EPOCHS)
        return {"optimizer": optimizer, "lr_scheduler": scheduler}


def main():
    L.seed_everything(3)
    gpu = torch.cuda.is_available()
    checkpoint = ModelCheckpoint(monitor="val_acc", mode="max", save_top_k=1)
    trainer = L.Trainer(
        max_epochs=EPOCHS,
        accelerator="gpu" if gpu else "cpu",
        devices=1,
        precision="bf16-mixed" if gpu else "32-true",
        accumulate_grad_batches=2,
        gradient_clip_val=1.0,
        callbacks=[checkpoint, LearningRateMonitor()],
        logger=CSVLogger("logs", name="lesions"),
        log_every_n_steps=5,
        enable_progress_bar=False,
    )
    data = LesionData(BATCH)
    trainer.fit(LesionModel(), datamodule=data)
    print("best", checkpoint.best_model_score)
    trainer.test(ckpt_path="best", datamodule=data)


if __name__ == "__main__":
    main()
