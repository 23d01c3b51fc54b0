"""Plant leaves with Swin V2 and LoRA on the attention, trained by the HF Trainer, then merged and saved."""

import argparse

import numpy as np
import torch
from peft import LoraConfig, get_peft_model
from torch.utils.data import Dataset
from transformers import (
    Swinv2Config,
    Swinv2ForImageClassification,
    Trainer,
    TrainingArguments,
    set_seed,
)


class Leaves(Dataset):
    def __init__(self, n, size, classes, seed):
        rng = np.random.default_rng(seed)
        self.labels = rng.integers(0, classes, n)
        self.phase = rng.random((n, 2)).astype(np.float32)
        axis = np.linspace(-1, 1, size, dtype=np.float32)
        self.yy, self.xx = np.meshgrid(axis, axis, indexing="ij")

    def __len__(self):
        return len(self.labels)

    def __getitem__(self, i):
        k = int(self.labels[i])
        dx, dy = self.phase[i] * 0.4
        radius = np.hypot(self.xx - dx, self.yy - dy)
        angle = np.arctan2(self.yy - dy, self.xx - dx)
        leaf = (radius < 0.5 + 0.2 * np.cos((k + 2) * angle)).astype(np.float32)
        image = np.stack([leaf * 0.2, leaf * 0.8, leaf * 0.1])
        return {"pixel_values": torch.from_numpy((image - 0.45) / 0.22), "labels": k}


def accuracy(pred):
    return {"accuracy": float((pred.predictions.argmax(-1) == pred.label_ids).mean())}


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--size", type=int, default=256)
    p.add_argument("--window", type=int, default=16)
    p.add_argument("--embed", type=int, default=96)
    p.add_argument("--depths", type=int, nargs=4, default=[2, 2, 18, 2])
    p.add_argument("--train", type=int, default=420)
    p.add_argument("--valid", type=int, default=130)
    p.add_argument("--batch", type=int, default=16)
    p.add_argument("--classes", type=int, default=15)
    a = p.parse_args()
    set_seed(1)
    config = Swinv2Config(
        image_size=a.size,
        patch_size=4,
        embed_dim=a.embed,
        depths=a.depths,
        num_heads=[3, 6, 12, 24],
        window_size=a.window,
        drop_path_rate=0.1,
        num_labels=a.classes,
    )
    model = Swinv2ForImageClassification(config)
    model = get_peft_model(
        model,
        LoraConfig(
            r=16,
            lora_alpha=16,
            lora_dropout=0.1,
            bias="none",
            target_modules=["query", "value"],
            modules_to_save=["classifier"],
        ),
    )
    model.print_trainable_parameters()
    args = TrainingArguments(
        output_dir="swinv2-leaves",
        num_train_epochs=1,
        per_device_train_batch_size=a.batch,
        per_device_eval_batch_size=2 * a.batch,
        learning_rate=2e-3,
        weight_decay=0.01,
        warmup_steps=3,
        lr_scheduler_type="cosine",
        bf16=True,
        eval_strategy="epoch",
        save_strategy="epoch",
        logging_steps=5,
        dataloader_num_workers=2,
        remove_unused_columns=False,
        label_names=["labels"],
        report_to="none",
    )
    trainer = Trainer(
        model=model,
        args=args,
        train_dataset=Leaves(a.train, a.size, a.classes, 0),
        eval_dataset=Leaves(a.valid, a.size, a.classes, 1),
        compute_metrics=accuracy,
    )
    trainer.train()
    merged = model.merge_and_unload()
    merged.save_pretrained("swinv2-leaves/merged")


if __name__ == "__main__":
    main()
