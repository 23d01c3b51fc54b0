"""Crop types from satellite tiles: SegFormer-B3 in Lightning, the accumulation grows with the epochs."""

import argparse

import lightning as L
import torch
import torch.nn.functional as F
from lightning.pytorch.callbacks import GradientAccumulationScheduler, ModelCheckpoint, Timer
from torch.utils.data import DataLoader, Dataset
from torchmetrics.classification import MulticlassJaccardIndex
from transformers import SegformerConfig, SegformerForSemanticSegmentation


class Tiles(Dataset):
    """Multispectral tiles: 6 bands, 9 crops, some pixels without a label (255)."""

    def __init__(self, n, size, seed):
        self.n, self.size, self.seed = n, size, seed

    def __len__(self):
        return self.n

    def __getitem__(self, i):
        g = torch.Generator().manual_seed(self.seed * 100003 + i)
        bands = torch.randn(6, self.size, self.size, generator=g)
        coarse = torch.randint(0, 9, (1, 1, self.size // 32, self.size // 32), generator=g).float()
        crop = F.interpolate(coarse, size=(self.size, self.size)).long()[0, 0]
        crop[torch.rand(crop.shape, generator=g) < 0.02] = 255
        return bands, crop


class CropSegmenter(L.LightningModule):
    def __init__(self, depths, widths, lr):
        super().__init__()
        self.save_hyperparameters()
        self.net = SegformerForSemanticSegmentation(
            SegformerConfig(
                num_channels=6,
                depths=depths,
                hidden_sizes=widths,
                decoder_hidden_size=768,
                num_labels=9,
                drop_path_rate=0.1,
                semantic_loss_ignore_index=255,
            )
        )
        self.iou = MulticlassJaccardIndex(num_classes=9, ignore_index=255)

    def forward(self, bands):
        logits = self.net(pixel_values=bands).logits
        return F.interpolate(logits, size=bands.shape[-2:], mode="bilinear", align_corners=False)

    def loss(self, logits, crop):
        ce = F.cross_entropy(logits, crop, ignore_index=255)
        prob = logits.float().softmax(1)
        valid = (crop != 255).unsqueeze(1)
        onehot = F.one_hot(crop.clamp(max=8), 9).permute(0, 3, 1, 2) * valid
        overlap = (prob * onehot).sum((0, 2, 3))
        dice = 1 - (2 * overlap + 1) / ((prob * valid).sum((0, 2, 3)) + onehot.sum((0, 2, 3)) + 1)
        return ce + dice.mean()

    def training_step(self, batch, index):
        bands, crop = batch
        loss = self.loss(self(bands), crop)
        self.log("train_loss", loss)
        return loss

    def validation_step(self, batch, index):
        bands, crop = batch
        logits = self(bands)
        self.iou(logits.argmax(1), crop)
        self.log("val_iou", self.iou, on_epoch=True)
        self.log("val_loss", self.loss(logits, crop))

    def configure_optimizers(self):
        optimizer = torch.optim.AdamW(self.parameters(), lr=self.hparams.lr, weight_decay=0.01)
        poly = torch.optim.lr_scheduler.PolynomialLR(
            optimizer, total_iters=self.trainer.max_epochs, power=0.9
        )
        return [optimizer], [poly]


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--size", type=int, default=512)
    p.add_argument("--batch", type=int, default=6)
    p.add_argument("--val-batch", type=int, default=4)
    p.add_argument("--tiles", type=int, default=56)
    p.add_argument("--depths", type=int, nargs=4, default=[3, 4, 18, 3])
    p.add_argument("--widths", type=int, nargs=4, default=[64, 128, 320, 512])
    a = p.parse_args()
    L.seed_everything(77)
    trainer = L.Trainer(
        accelerator="gpu",
        devices=1,
        max_epochs=3,
        precision="bf16-mixed",
        gradient_clip_val=0.5,
        callbacks=[
            GradientAccumulationScheduler(scheduling={0: 1, 2: 2}),
            ModelCheckpoint(dirpath="crops", monitor="val_iou", mode="max", save_last=False),
            Timer(duration="00:00:05:00"),
        ],
        logger=False,
        enable_progress_bar=False,
        log_every_n_steps=2,
    )
    trainer.fit(
        CropSegmenter(a.depths, a.widths, 6e-5),
        DataLoader(
            Tiles(a.tiles, a.size, 1),
            batch_size=a.batch,
            shuffle=True,
            num_workers=4,
            drop_last=True,
        ),
        DataLoader(Tiles(a.tiles // 4, a.size, 2), batch_size=a.val_batch, num_workers=2),
    )
    print("best", trainer.checkpoint_callback.best_model_path)


if __name__ == "__main__":
    main()
