"""Flooded-area segmentation: UperNet head on a ConvNeXt backbone, fp16 autocast with a loss scaler (16-mixed)."""

import tempfile

import torch
from lightning import LightningModule, Trainer, seed_everything
from lightning.pytorch.callbacks import EarlyStopping, ModelCheckpoint
from torch.optim import SGD
from torch.optim.lr_scheduler import PolynomialLR
from torch.utils.data import DataLoader, Dataset
from torchmetrics import JaccardIndex
from transformers import ConvNextConfig, UperNetConfig, UperNetForSemanticSegmentation

CLASSES = 10
CROP = 512
BATCH = 12
TRAIN, VALID = 120, 24


class Floods(Dataset):
    def __init__(self, n, seed):
        gen = torch.Generator().manual_seed(seed)
        self.images = torch.randint(0, 256, (n, 3, CROP, CROP), generator=gen, dtype=torch.uint8)
        self.masks = torch.randint(0, CLASSES, (n, CROP // 8, CROP // 8), generator=gen)

    def __len__(self):
        return len(self.images)

    def __getitem__(self, i):
        mask = self.masks[i].repeat_interleave(8, 0).repeat_interleave(8, 1)
        return self.images[i].float() / 255, mask


class FloodSegmenter(LightningModule):
    def __init__(self):
        super().__init__()
        backbone = ConvNextConfig(
            depths=[3, 3, 27, 3],
            hidden_sizes=[96, 192, 384, 768],
            drop_path_rate=0.3,
            out_features=["stage1", "stage2", "stage3", "stage4"],
        )
        config = UperNetConfig(
            backbone_config=backbone,
            hidden_size=512,
            auxiliary_in_channels=backbone.hidden_sizes[2],
            num_labels=CLASSES,
        )
        self.model = UperNetForSemanticSegmentation(config)
        self.iou = JaccardIndex(task="multiclass", num_classes=CLASSES)

    def training_step(self, batch, batch_idx):
        images, masks = batch
        loss = self.model(pixel_values=images, labels=masks).loss
        self.log("loss", loss, on_step=True, on_epoch=True)
        return loss

    def validation_step(self, batch, batch_idx):
        images, masks = batch
        out = self.model(pixel_values=images, labels=masks)
        self.iou.update(out.logits.argmax(1), masks)
        self.log("val_loss", out.loss)

    def on_validation_epoch_end(self):
        self.log("val_iou", self.iou.compute())
        self.iou.reset()

    def configure_optimizers(self):
        head, body = [], []
        for name, p in self.model.named_parameters():
            (body if name.startswith("backbone") else head).append(p)
        opt = SGD(
            [{"params": body, "lr": 1e-3}, {"params": head, "lr": 1e-2}],
            momentum=0.9,
            weight_decay=1e-4,
        )
        return [opt], [{"scheduler": PolynomialLR(opt, 20, 0.9), "interval": "step"}]


def main():
    seed_everything(2718)
    with tempfile.TemporaryDirectory() as where:
        trainer = Trainer(
            accelerator="auto",
            devices=1,
            precision="16-mixed",
            max_epochs=2,
            gradient_clip_val=5.0,
            callbacks=[
                ModelCheckpoint(dirpath=where, monitor="val_iou", mode="max", save_top_k=1),
                EarlyStopping("val_loss", patience=3),
            ],
            logger=False,
            log_every_n_steps=5,
            enable_progress_bar=False,
        )
        trainer.fit(
            FloodSegmenter(),
            DataLoader(Floods(TRAIN, 0), BATCH, shuffle=True, drop_last=True, num_workers=4),
            DataLoader(Floods(VALID, 1), BATCH, num_workers=4),
        )
        print("best:", trainer.checkpoint_callback.best_model_score)


if __name__ == "__main__":
    main()
