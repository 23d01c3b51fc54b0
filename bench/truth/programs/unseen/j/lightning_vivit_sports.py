"""ViViT on short sports clips with Lightning: bf16-mixed, four batches per update, validation every epoch."""

import lightning as L
import torch
from lightning.pytorch.callbacks import Callback
from torch.utils.data import DataLoader, Dataset
from torchmetrics.classification import MulticlassAccuracy
from transformers import VivitConfig, VivitForVideoClassification, get_cosine_schedule_with_warmup

FRAMES = 16
SIZE = 224
SPORTS = 48
WIDTH = 768
LAYERS = 12
BATCH = 8
ACCUMULATE = 4
CLIPS = 96
VAL_CLIPS = 32
EPOCHS = 2


class Clips(Dataset):
    def __init__(self, n, offset=0):
        self.n, self.offset = n, offset

    def __len__(self):
        return self.n

    def __getitem__(self, i):
        g = torch.Generator().manual_seed(self.offset + i)
        clip = torch.randn(FRAMES, 3, SIZE, SIZE, generator=g)
        return clip, torch.randint(0, SPORTS, (), generator=g)


class ClipData(L.LightningDataModule):
    def train_dataloader(self):
        return DataLoader(
            Clips(CLIPS), batch_size=BATCH, shuffle=True, num_workers=4, pin_memory=True
        )

    def val_dataloader(self):
        return DataLoader(
            Clips(VAL_CLIPS, 10_000), batch_size=BATCH, num_workers=4, pin_memory=True
        )


class SportsModel(L.LightningModule):
    def __init__(self, lr=1e-4, weight_decay=0.05):
        super().__init__()
        self.save_hyperparameters()
        self.net = VivitForVideoClassification(
            VivitConfig(
                image_size=SIZE,
                num_frames=FRAMES,
                hidden_size=WIDTH,
                num_hidden_layers=LAYERS,
                intermediate_size=4 * WIDTH,
                num_labels=SPORTS,
            )
        )
        self.accuracy = MulticlassAccuracy(num_classes=SPORTS, average="micro")

    def forward(self, clips):
        return self.net(pixel_values=clips).logits

    def training_step(self, batch, _):
        clips, target = batch
        loss = torch.nn.functional.cross_entropy(self(clips), target, label_smoothing=0.1)
        self.log("train_loss", loss, prog_bar=True)
        return loss

    def validation_step(self, batch, _):
        clips, target = batch
        logits = self(clips)
        self.accuracy(logits, target)
        self.log("val_loss", torch.nn.functional.cross_entropy(logits, target))
        self.log("val_acc", self.accuracy)

    def configure_optimizers(self):
        opt = torch.optim.AdamW(
            self.parameters(), lr=self.hparams.lr, weight_decay=self.hparams.weight_decay
        )
        total = self.trainer.estimated_stepping_batches
        schedule = get_cosine_schedule_with_warmup(opt, 1, total)
        return {"optimizer": opt, "lr_scheduler": {"scheduler": schedule, "interval": "step"}}


class PrintMemory(Callback):
    def on_train_epoch_end(self, trainer, module):
        if torch.cuda.is_available():
            print(
                f"epoch {trainer.current_epoch}: {torch.cuda.max_memory_allocated() / 2**30:.1f} GiB"
            )


if __name__ == "__main__":
    L.seed_everything(15, workers=True)
    trainer = L.Trainer(
        accelerator="auto",
        devices=1,
        max_epochs=EPOCHS,
        precision="bf16-mixed",
        accumulate_grad_batches=ACCUMULATE,
        gradient_clip_val=1.0,
        callbacks=[PrintMemory()],
        logger=False,
        enable_checkpointing=False,
        enable_progress_bar=False,
        num_sanity_val_steps=1,
    )
    trainer.fit(SportsModel(), datamodule=ClipData())
    print(trainer.callback_metrics)
