"""Speech emotion classification with HuBERT-base; clips of 2 to 6 s, padded to the longest of the batch."""

import argparse

import numpy as np
import torch
from torch.utils.data import Dataset
from transformers import (
    HubertConfig,
    HubertForSequenceClassification,
    Trainer,
    TrainingArguments,
    set_seed,
)

EMOTIONS = ["neutral", "happy", "sad", "angry", "fearful", "surprised"]


class Clips(Dataset):
    def __init__(self, count, rate, longest, seed):
        rng = np.random.default_rng(seed)
        self.rate = rate
        self.labels = rng.integers(0, len(EMOTIONS), count)
        self.seconds = rng.uniform(2.0, longest, count)
        self.seeds = rng.integers(0, 2**31, count)

    def __len__(self):
        return len(self.labels)

    def __getitem__(self, i):
        rng = np.random.default_rng(self.seeds[i])
        n = int(self.seconds[i] * self.rate)
        t = np.arange(n, dtype=np.float32) / self.rate
        pitch = 110 + 40 * self.labels[i]
        wave = np.sin(2 * np.pi * pitch * t) + 0.3 * rng.standard_normal(n, dtype=np.float32)
        wave = (wave - wave.mean()) / (wave.std() + 1e-5)
        return {
            "input_values": torch.from_numpy(wave.astype(np.float32)),
            "labels": int(self.labels[i]),
        }


def collate(features):
    waves = [f["input_values"] for f in features]
    longest = max(len(w) for w in waves)
    values = torch.zeros(len(waves), longest)
    mask = torch.zeros(len(waves), longest, dtype=torch.long)
    for i, w in enumerate(waves):
        values[i, : len(w)] = w
        mask[i, : len(w)] = 1
    return {
        "input_values": values,
        "attention_mask": mask,
        "labels": torch.tensor([f["labels"] for f in features]),
    }


def metrics(pred):
    guess = np.argmax(pred.predictions, axis=-1)
    recalls = [
        (guess[pred.label_ids == c] == c).mean()
        for c in range(len(EMOTIONS))
        if (pred.label_ids == c).any()
    ]
    return {"accuracy": float((guess == pred.label_ids).mean()), "uar": float(np.mean(recalls))}


if __name__ == "__main__":
    p = argparse.ArgumentParser()
    p.add_argument("--train_clips", type=int, default=700)
    p.add_argument("--eval_clips", type=int, default=150)
    p.add_argument("--longest", type=float, default=6.0)
    p.add_argument("--batch", type=int, default=24)
    p.add_argument("--layers", type=int, default=12)
    p.add_argument("--hidden", type=int, default=768)
    a = p.parse_args()
    set_seed(42)

    config = HubertConfig(
        hidden_size=a.hidden,
        num_hidden_layers=a.layers,
        num_attention_heads=12,
        intermediate_size=4 * a.hidden,
        classifier_proj_size=256,
        mask_time_prob=0.05,
        layerdrop=0.0,
        num_labels=len(EMOTIONS),
        id2label=dict(enumerate(EMOTIONS)),
    )
    model = HubertForSequenceClassification(config)
    model.freeze_feature_encoder()
    trainable = sum(q.numel() for q in model.parameters() if q.requires_grad)
    print(f"{trainable / 1e6:.1f}M trainable of {model.num_parameters() / 1e6:.1f}M")

    args = TrainingArguments(
        output_dir="hubert-emotion",
        num_train_epochs=1,
        per_device_train_batch_size=a.batch,
        per_device_eval_batch_size=32,
        gradient_accumulation_steps=2,
        learning_rate=1e-4,
        warmup_steps=3,
        bf16=True,
        eval_strategy="steps",
        eval_steps=8,
        save_strategy="no",
        logging_steps=2,
        dataloader_num_workers=2,
        report_to="none",
    )
    trainer = Trainer(
        model=model,
        args=args,
        data_collator=collate,
        compute_metrics=metrics,
        train_dataset=Clips(a.train_clips, 16000, a.longest, 0),
        eval_dataset=Clips(a.eval_clips, 16000, a.longest, 1),
    )
    trainer.train()
    print(trainer.evaluate())
    trainer.save_model("hubert-emotion/final")
