"""Plankton pictures, long-tailed: ConvNeXtV2-base with a class-balanced, smoothed loss (compute_loss_func)."""

import argparse

import numpy as np
import torch
import torch.nn.functional as F
from torch.utils.data import Dataset
from torchvision.transforms import v2
from transformers import (
    ConvNextV2Config,
    ConvNextV2ForImageClassification,
    Trainer,
    TrainerCallback,
    TrainingArguments,
)

parser = argparse.ArgumentParser()
parser.add_argument("--size", type=int, default=224)
parser.add_argument("--batch", type=int, default=40)
parser.add_argument("--eval_batch", type=int, default=100)
parser.add_argument("--images", type=int, default=300)
parser.add_argument("--epochs", type=int, default=2)
parser.add_argument("--depths", type=int, nargs=4, default=[3, 3, 27, 3])
parser.add_argument("--sizes", type=int, nargs=4, default=[128, 256, 512, 1024])
opt = parser.parse_args()

CLASSES = 38
COUNTS = np.maximum(5, (2000 * 0.85 ** np.arange(CLASSES))).astype(int)
EFFECTIVE = (1 - 0.999**COUNTS) / (1 - 0.999)
WEIGHTS = torch.tensor((1 / EFFECTIVE) / (1 / EFFECTIVE).sum() * CLASSES, dtype=torch.float32)


class Plankton(Dataset):
    def __init__(self, n, train):
        self.images = torch.randint(0, 256, (n, 3, opt.size + 32, opt.size + 32), dtype=torch.uint8)
        self.labels = np.random.choice(CLASSES, size=n, p=COUNTS / COUNTS.sum())
        crop = (
            [v2.RandomResizedCrop(opt.size, antialias=True), v2.RandomHorizontalFlip()]
            if train
            else [v2.CenterCrop(opt.size)]
        )
        self.transform = v2.Compose(
            [*crop, v2.ToDtype(torch.float32, scale=True), v2.Normalize([0.5] * 3, [0.25] * 3)]
        )

    def __len__(self):
        return len(self.labels)

    def __getitem__(self, i):
        return {"pixel_values": self.transform(self.images[i]), "labels": int(self.labels[i])}


def balanced_loss(outputs, labels, num_items_in_batch=None):
    weight = WEIGHTS.to(outputs.logits.device)
    return F.cross_entropy(outputs.logits.float(), labels, weight=weight, label_smoothing=0.1)


def metrics(pred):
    guess = pred.predictions.argmax(-1)
    recalls = [(guess[pred.label_ids == c] == c).mean() for c in np.unique(pred.label_ids)]
    return {"top1": float((guess == pred.label_ids).mean()), "balanced": float(np.mean(recalls))}


class Freeze(TrainerCallback):
    """The stem stays frozen during the first epoch."""

    def on_epoch_begin(self, args, state, control, model=None, **kwargs):
        for p in model.convnextv2.embeddings.parameters():
            p.requires_grad_(state.epoch >= 1)


def main():
    config = ConvNextV2Config(
        image_size=opt.size,
        depths=opt.depths,
        hidden_sizes=opt.sizes,
        drop_path_rate=0.2,
        num_labels=CLASSES,
    )
    model = ConvNextV2ForImageClassification(config)
    args = TrainingArguments(
        output_dir="plankton",
        num_train_epochs=opt.epochs,
        per_device_train_batch_size=opt.batch,
        per_device_eval_batch_size=opt.eval_batch,
        learning_rate=4e-4,
        weight_decay=0.05,
        lr_scheduler_type="cosine",
        fp16=True,
        eval_strategy="epoch",
        save_strategy="epoch",
        save_only_model=True,
        save_total_limit=1,
        load_best_model_at_end=True,
        metric_for_best_model="balanced",
        dataloader_num_workers=3,
        logging_steps=3,
        report_to="none",
        disable_tqdm=True,
    )
    trainer = Trainer(
        model=model,
        args=args,
        train_dataset=Plankton(opt.images, True),
        eval_dataset=Plankton(opt.images // 2, False),
        compute_loss_func=balanced_loss,
        compute_metrics=metrics,
        callbacks=[Freeze()],
    )
    trainer.train()
    print("best", trainer.state.best_metric, "peak MiB", torch.cuda.max_memory_allocated() >> 20)


if __name__ == "__main__":
    main()
