"""Action recognition with VideoMAE under Lightning, bf16-mixed, layer-wise learning rate decay."""

import lightning as L
import torch
import torch.nn.functional as F
from lightning.pytorch.callbacks import LearningRateMonitor, ModelCheckpoint
from lightning.pytorch.loggers import CSVLogger
from torch.utils.data import DataLoader, Dataset
from transformers import VideoMAEConfig, VideoMAEForVideoClassification

FRAMES = 16
SIZE = 224
HIDDEN = 768
LAYERS = 12
CLASSES = 20
TRAIN_CLIPS = 132
VALID_CLIPS = 24
BATCH = 8
VALID_BATCH = 6
EPOCHS = 1


class MovingSquares(Dataset):
    def __init__(self, n, seed):
        self.n, self.seed = n, seed

    def __len__(self):
        return self.n

    def __getitem__(self, i):
        g = torch.Generator().manual_seed(self.seed + i)
        label = int(torch.randint(CLASSES, (1,), generator=g))
        clip = torch.rand(1, 3, SIZE, SIZE, generator=g).repeat(FRAMES, 1, 1, 1) * 0.3
        side, speed = SIZE // 6, 1 + label % 5
        for t in range(FRAMES):
            at = (speed * t * 2) % (SIZE - side)
            if label < CLASSES // 2:
                clip[t, :, at : at + side, side : 2 * side] = 1.0
            else:
                clip[t, :, side : 2 * side, at : at + side] = 1.0
        return (clip - 0.45) / 0.225, label


class ActionModel(L.LightningModule):
    def __init__(self, lr=5e-4, decay=0.75):
        super().__init__()
        self.save_hyperparameters()
        config = VideoMAEConfig(
            image_size=SIZE,
            num_frames=FRAMES,
            hidden_size=HIDDEN,
            num_hidden_layers=LAYERS,
            num_attention_heads=12,
            intermediate_size=4 * HIDDEN,
            num_labels=CLASSES,
        )
        self.model = VideoMAEForVideoClassification(config)

    def forward(self, clips):
        return self.model(pixel_values=clips).logits

    def training_step(self, batch, _):
        clips, labels = batch
        loss = F.cross_entropy(self(clips), labels, label_smoothing=0.1)
        self.log("train_loss", loss, prog_bar=True)
        return loss

    def validation_step(self, batch, _):
        clips, labels = batch
        logits = self(clips)
        self.log("val_loss", F.cross_entropy(logits, labels))
        self.log("val_acc", (logits.argmax(-1) == labels).float().mean(), prog_bar=True)

    def configure_optimizers(self):
        groups = {}
        for name, p in self.model.named_parameters():
            depth = 0
            for part in name.split("."):
                if part.isdigit():
                    depth = int(part) + 1
                    break
            if name.startswith("classifier"):
                depth = LAYERS + 1
            groups.setdefault(depth, []).append(p)
        scale = self.hparams.decay
        optimizer = torch.optim.AdamW(
            [
                {"params": ps, "lr": self.hparams.lr * scale ** (LAYERS + 1 - d)}
                for d, ps in groups.items()
            ],
            weight_decay=0.05,
        )
        total = self.trainer.estimated_stepping_batches
        schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=int(total))
        return {"optimizer": optimizer, "lr_scheduler": {"scheduler": schedule, "interval": "step"}}


if __name__ == "__main__":
    L.seed_everything(21)
    train = DataLoader(
        MovingSquares(TRAIN_CLIPS, 0), batch_size=BATCH, shuffle=True, num_workers=3, drop_last=True
    )
    valid = DataLoader(MovingSquares(VALID_CLIPS, 10**6), batch_size=VALID_BATCH, num_workers=1)
    trainer = L.Trainer(
        max_epochs=EPOCHS,
        accelerator="gpu",
        devices=1,
        precision="bf16-mixed",
        gradient_clip_val=1.0,
        logger=CSVLogger("logs"),
        log_every_n_steps=2,
        callbacks=[
            ModelCheckpoint("videomae", monitor="val_acc", mode="max", save_weights_only=True),
            LearningRateMonitor("step"),
        ],
    )
    trainer.fit(ActionModel(), train, valid)
