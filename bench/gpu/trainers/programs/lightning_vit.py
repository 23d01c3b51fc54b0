"""A program that knows nothing of Plimsoll: a vision transformer of transformers under Lightning, random images.

Usage: lightning_vit.py --batch N --accumulation N --steps N [--precision bf16-mixed] [--prepared] [--find] [--tiny]
With --prepared all batches lie in pinned memory before training begins: no loader is measured. With --find Lightning's
BatchSizeFinder looks for a batch first.
"""

import argparse
import json
import time

import lightning.pytorch as pl
import torch
from transformers import ViTConfig, ViTForImageClassification

parser = argparse.ArgumentParser()
parser.add_argument("--batch", type=int, required=True)
parser.add_argument("--accumulation", type=int, default=1)
parser.add_argument("--steps", type=int, default=12)
parser.add_argument("--precision", default="32-true")
parser.add_argument("--prepared", action="store_true")
parser.add_argument("--find", action="store_true")
parser.add_argument("--tiny", action="store_true")
given = parser.parse_args()
SMALL = {"hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2, "image_size": 32}


class Images(torch.utils.data.Dataset):
    def __len__(self):
        return given.batch * given.accumulation * given.steps

    def __getitem__(self, i):
        made = torch.Generator().manual_seed(i)
        # One patch many times over: images of numbers drawn one by one would take longer than training.
        times = 1 if given.tiny else 7
        return torch.randn(3, 32, 32, generator=made).repeat(1, times, times), i % 10


def prepared():
    """As many batches as there are steps, all of them slices of the same few images."""
    count = 2 * given.batch
    drawn = [Images()[i % 512] for i in range(count)]
    images = torch.stack([image for image, _ in drawn])
    labels = torch.tensor([label for _, label in drawn])
    if torch.cuda.is_available():
        images, labels = images.pin_memory(), labels.pin_memory()
    batches = []
    for i in range(given.accumulation * given.steps):
        start = i % 2 * given.batch
        batches.append((images[start : start + given.batch], labels[start : start + given.batch]))
    return torch.utils.data.DataLoader(batches, batch_size=None)


class Data(pl.LightningDataModule):
    """The finder sets batch_size here."""

    def __init__(self):
        super().__init__()
        self.batch_size = given.batch

    def train_dataloader(self):
        return torch.utils.data.DataLoader(Images(), batch_size=self.batch_size)


class Classifier(pl.LightningModule):
    def __init__(self):
        super().__init__()
        config = ViTConfig(num_labels=10, **(SMALL if given.tiny else {}))
        self.model = ViTForImageClassification(config)
        self.at, self.losses = [], []

    def training_step(self, batch, batch_idx):
        images, labels = batch
        loss = torch.nn.functional.cross_entropy(self.model(images).logits, labels)
        self.log("loss", loss, on_step=False, on_epoch=True)
        return loss

    def on_train_batch_end(self, outputs, batch, batch_idx):
        self.losses.append(float(outputs["loss"]))
        if torch.cuda.is_available():
            torch.cuda.synchronize()
        self.at.append(time.perf_counter())

    def configure_optimizers(self):
        return torch.optim.AdamW(self.parameters(), lr=1e-4)


torch.manual_seed(0)
module = Classifier()
trainer = pl.Trainer(
    max_epochs=1,
    accumulate_grad_batches=given.accumulation,
    gradient_clip_val=1.0,
    precision=given.precision,
    devices=1,
    logger=False,
    enable_checkpointing=False,
    enable_progress_bar=False,
    enable_model_summary=False,
    callbacks=[pl.callbacks.BatchSizeFinder(init_val=given.batch)] if given.find else None,
)
data = Data()
loader = prepared() if given.prepared else None
began = time.perf_counter()
trainer.fit(module, loader, datamodule=None if loader else data)
size = given.accumulation
answer = {
    "losses": [
        sum(module.losses[i : i + size]) for i in range(0, len(module.losses) - size + 1, size)
    ],
    "seconds": time.perf_counter() - began,
    "stepSeconds": [
        b - a for a, b in zip(module.at[size - 1 :: size], module.at[2 * size - 1 :: size])
    ],
    "batch": data.batch_size,
    "epochLoss": float(trainer.callback_metrics["loss"]),
}
if torch.cuda.is_available():
    answer["peakReservedBytes"] = torch.cuda.max_memory_reserved()
print("ANSWER " + json.dumps(answer))
