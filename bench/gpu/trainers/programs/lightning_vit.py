"""A program that knows nothing of Plimsoll: a vision transformer of transformers under Lightning, random images.

Usage: lightning_vit.py --batch N --accumulation N --steps N [--precision bf16-mixed] [--tiny]
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
)
loader = torch.utils.data.DataLoader(Images(), batch_size=given.batch)
began = time.perf_counter()
trainer.fit(module, loader)
size = given.accumulation
answer = {
    "losses": [
        sum(module.losses[i : i + size]) for i in range(0, len(module.losses) - size + 1, size)
    ],
    "seconds": time.perf_counter() - began,
    "stepSeconds": [
        b - a for a, b in zip(module.at[size - 1 :: size], module.at[2 * size - 1 :: size])
    ],
    "epochLoss": float(trainer.callback_metrics["loss"]),
}
if torch.cuda.is_available():
    answer["peakReservedBytes"] = torch.cuda.max_memory_reserved()
print("ANSWER " + json.dumps(answer))
