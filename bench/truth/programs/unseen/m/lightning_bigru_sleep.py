"""Sleep staging: a 1-D CNN per 30 s epoch and a bidirectional GRU over 21 epochs in Lightning; RAdam, gradient accumulation that grows, early stopping and checkpoints."""

import argparse
import tempfile

import lightning as L
import torch
import torch.nn.functional as F
from lightning.pytorch.callbacks import (
    EarlyStopping,
    GradientAccumulationScheduler,
    ModelCheckpoint,
)
from torch import nn
from torch.utils.data import DataLoader, Dataset

STAGES = ["W", "N1", "N2", "N3", "REM"]
SAMPLES = 3000  # 30 s at 100 Hz


class Nights(Dataset):
    def __init__(self, n, epochs, seed):
        self.n, self.epochs, self.seed = n, epochs, seed

    def __len__(self):
        return self.n

    def __getitem__(self, i):
        g = torch.Generator().manual_seed(self.seed + i)
        stages = torch.randint(0, len(STAGES), (self.epochs,), generator=g)
        signal = torch.randn(self.epochs, 2, SAMPLES, generator=g)
        return signal * (1 + 0.2 * stages[:, None, None]), stages


class SleepNet(L.LightningModule):
    def __init__(self, width=128, hidden=256, lr=1e-3):
        super().__init__()
        self.save_hyperparameters()

        def block(a, b, kernel, stride=1):
            conv = nn.Conv1d(a, b, kernel, stride, kernel // 2, bias=False)
            return [conv, nn.BatchNorm1d(b), nn.ReLU()]

        self.cnn = nn.Sequential(
            *block(2, width // 2, 51, 3),
            nn.MaxPool1d(4),
            nn.Dropout(0.2),
            *block(width // 2, width, 9),
            *block(width, width, 9),
            nn.MaxPool1d(2),
            *block(width, 2 * width, 9),
            nn.AdaptiveAvgPool1d(4),
            nn.Flatten(),
            nn.Dropout(0.3),
        )
        self.gru = nn.GRU(8 * width, hidden, 2, batch_first=True, bidirectional=True, dropout=0.2)
        self.head = nn.Linear(2 * hidden, len(STAGES))
        self.register_buffer("weights", torch.tensor([1.0, 2.0, 0.8, 1.2, 1.1]))

    def forward(self, x):
        batch, epochs = x.shape[:2]
        features = self.cnn(x.flatten(0, 1)).view(batch, epochs, -1)
        return self.head(self.gru(features)[0])

    def step(self, batch):
        x, y = batch
        logits = self(x).flatten(0, 1)
        return F.cross_entropy(logits, y.flatten(), self.weights), logits.argmax(1) == y.flatten()

    def training_step(self, batch, _):
        loss, right = self.step(batch)
        self.log("train_loss", loss)
        return loss

    def validation_step(self, batch, _):
        loss, right = self.step(batch)
        self.log_dict({"val_loss": loss, "val_acc": right.float().mean()}, prog_bar=True)

    def configure_optimizers(self):
        optimizer = torch.optim.RAdam(self.parameters(), lr=self.hparams.lr, weight_decay=1e-4)
        plateau = torch.optim.lr_scheduler.ReduceLROnPlateau(optimizer, patience=1)
        return {
            "optimizer": optimizer,
            "lr_scheduler": {"scheduler": plateau, "monitor": "val_loss"},
        }


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--batch", type=int, default=64)
    p.add_argument("--val-batch", type=int, default=96)
    p.add_argument("--nights", type=int, default=500)
    p.add_argument("--epochs-per-night", type=int, default=21)
    p.add_argument("--width", type=int, default=128)
    p.add_argument("--hidden", type=int, default=256)
    p.add_argument("--max-epochs", type=int, default=3)
    p.add_argument("--workers", type=int, default=8)
    a = p.parse_args()
    L.seed_everything(77, workers=True)
    train = DataLoader(
        Nights(a.nights, a.epochs_per_night, 0), a.batch, shuffle=True, num_workers=a.workers
    )
    val = DataLoader(
        Nights(a.nights // 4, a.epochs_per_night, 10**6), a.val_batch, num_workers=a.workers
    )
    with tempfile.TemporaryDirectory() as folder:
        best = ModelCheckpoint(folder, monitor="val_loss", save_top_k=1)
        trainer = L.Trainer(
            max_epochs=a.max_epochs,
            accelerator="auto",
            devices=1,
            callbacks=[
                best,
                EarlyStopping("val_loss", patience=3),
                GradientAccumulationScheduler({0: 1, 1: 2}),
            ],
            gradient_clip_val=2.0,
            logger=False,
            enable_progress_bar=False,
        )
        model = SleepNet(a.width, a.hidden)
        trainer.fit(model, train, val)
        print(trainer.validate(model, val, ckpt_path=best.best_model_path, weights_only=False))


if __name__ == "__main__":
    main()
