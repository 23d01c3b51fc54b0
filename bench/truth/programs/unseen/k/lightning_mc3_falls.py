"""Detect falls in short clips: torchvision MC3-18 in a LightningModule, fp16, focal loss, checkpoint of the best epoch, test at the end."""

import tempfile

import lightning as L
import torch
import torch.nn.functional as F
from lightning.pytorch.callbacks import ModelCheckpoint
from torch.utils.data import DataLoader, Dataset, random_split
from torchmetrics.classification import BinaryF1Score
from torchvision.models.video import mc3_18


class Clips(Dataset):
    def __init__(self, n=448, frames=16, size=112):
        self.n, self.frames, self.size = n, frames, size

    def __len__(self):
        return self.n

    def __getitem__(self, i):
        g = torch.Generator().manual_seed(i)
        fall = i % 4 == 0
        ground = torch.randint(0, 120, (3, 1, self.size, self.size), dtype=torch.uint8, generator=g)
        clip = ground.repeat(1, self.frames, 1, 1)
        for t in range(self.frames):
            top = 20 + (4 * t if fall else 0)
            clip[:, t, top : top + 30, 50:62] = 250
        return clip, float(fall)


class FallData(L.LightningDataModule):
    def __init__(self, batch=48):
        super().__init__()
        self.batch = batch

    def setup(self, stage=None):
        self.train, self.valid, self.test = random_split(
            Clips(), [320, 64, 64], generator=torch.Generator().manual_seed(0)
        )

    def loader(self, part, shuffle=False):
        return DataLoader(part, self.batch, shuffle=shuffle, num_workers=3, pin_memory=True)

    def train_dataloader(self):
        return self.loader(self.train, True)

    def val_dataloader(self):
        return self.loader(self.valid)

    def test_dataloader(self):
        return self.loader(self.test)


class FallNet(L.LightningModule):
    def __init__(self, lr=3e-4, gamma=2.0):
        super().__init__()
        self.save_hyperparameters()
        self.net = mc3_18(weights=None)
        self.net.fc = torch.nn.Linear(self.net.fc.in_features, 1)
        self.f1 = BinaryF1Score()

    def forward(self, clip):
        return self.net(clip.float().div(255).sub(0.4).div(0.25)).squeeze(1)

    def focal(self, logit, target):
        ce = F.binary_cross_entropy_with_logits(logit, target, reduction="none")
        return (ce * (1 - torch.exp(-ce)) ** self.hparams.gamma).mean()

    def training_step(self, batch, i):
        clip, target = batch
        loss = self.focal(self(clip).float(), target.float())
        self.log("loss", loss, on_epoch=True)
        return loss

    def validation_step(self, batch, i):
        clip, target = batch
        logit = self(clip).float()
        self.f1.update(logit, target.int())
        self.log("val_loss", self.focal(logit, target.float()))
        self.log("val_f1", self.f1)

    def test_step(self, batch, i):
        clip, target = batch
        self.log("test_loss", self.focal(self(clip).float(), target.float()))

    def configure_optimizers(self):
        optimizer = torch.optim.Adam(self.parameters(), lr=self.hparams.lr)
        return {
            "optimizer": optimizer,
            "lr_scheduler": torch.optim.lr_scheduler.StepLR(optimizer, 1, 0.5),
        }


if __name__ == "__main__":
    L.seed_everything(58, workers=True)
    with tempfile.TemporaryDirectory() as folder:
        best = ModelCheckpoint(folder, monitor="val_loss", save_top_k=1)
        trainer = L.Trainer(
            max_epochs=3,
            devices=1,
            accelerator="auto",
            precision="16-mixed",
            callbacks=[best],
            logger=False,
            enable_progress_bar=False,
            log_every_n_steps=2,
        )
        data = FallData()
        trainer.fit(FallNet(), datamodule=data)
        print("best", best.best_model_score)
        print(trainer.test(ckpt_path="best", datamodule=data, verbose=False))
