"""A VAE with Lightning: mixed bfloat16, validation with larger batches, checkpoints, early stopping."""

import lightning as L
import torch
import torch.nn.functional as F
from lightning.pytorch.callbacks import EarlyStopping, ModelCheckpoint
from torch import nn
from torch.utils.data import DataLoader, Dataset


class Images(Dataset):
    def __init__(self, count):
        self.count = count

    def __len__(self):
        return self.count

    def __getitem__(self, i):
        return torch.rand(3, 64, 64)


class Data(L.LightningDataModule):
    def train_dataloader(self):
        return DataLoader(Images(2000), 96, shuffle=True, num_workers=2, drop_last=True)

    def val_dataloader(self):
        return DataLoader(Images(900), 384, num_workers=2)


class Vae(L.LightningModule):
    def __init__(self, width=64, latent=256):
        super().__init__()
        self.save_hyperparameters()
        self.encoder = nn.Sequential(
            nn.Conv2d(3, width, 4, 2, 1),
            nn.SiLU(),
            nn.Conv2d(width, 2 * width, 4, 2, 1),
            nn.GroupNorm(8, 2 * width),
            nn.SiLU(),
            nn.Conv2d(2 * width, 4 * width, 4, 2, 1),
            nn.SiLU(),
            nn.Flatten(),
            nn.Linear(4 * width * 64, 2 * latent),
        )
        self.decoder = nn.Sequential(
            nn.Linear(latent, 4 * width * 64),
            nn.Unflatten(1, (4 * width, 8, 8)),
            nn.ConvTranspose2d(4 * width, 2 * width, 4, 2, 1),
            nn.SiLU(),
            nn.ConvTranspose2d(2 * width, width, 4, 2, 1),
            nn.SiLU(),
            nn.ConvTranspose2d(width, 3, 4, 2, 1),
        )

    def forward(self, x):
        mean, spread = self.encoder(x).chunk(2, 1)
        latent = mean + torch.randn_like(mean) * (0.5 * spread).exp()
        return self.decoder(latent), mean, spread

    def cost(self, x):
        out, mean, spread = self(x)
        distance = -0.5 * (1 + spread - mean.pow(2) - spread.exp()).sum(1).mean()
        return F.mse_loss(out, x, reduction="sum") / len(x) + distance

    def training_step(self, batch, number):
        cost = self.cost(batch)
        self.log("train_loss", cost, prog_bar=True, on_step=True, on_epoch=True)
        return cost

    def validation_step(self, batch, number):
        self.log("val_loss", self.cost(batch), prog_bar=True)

    def configure_optimizers(self):
        optimizer = torch.optim.AdamW(self.parameters(), 1e-3)
        schedule = torch.optim.lr_scheduler.ReduceLROnPlateau(optimizer, patience=2)
        return {
            "optimizer": optimizer,
            "lr_scheduler": {"scheduler": schedule, "monitor": "val_loss"},
        }


L.seed_everything(1)
trainer = L.Trainer(
    accelerator="gpu",
    devices=1,
    max_epochs=3,
    precision="bf16-mixed",
    gradient_clip_val=0.5,
    logger=False,
    callbacks=[
        ModelCheckpoint(dirpath="vae-checkpoints", monitor="val_loss", save_top_k=1),
        EarlyStopping("val_loss", patience=3),
    ],
    enable_progress_bar=False,
)
trainer.fit(Vae(), Data())
print({k: float(v) for k, v in trainer.callback_metrics.items()})
