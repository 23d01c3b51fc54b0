"""Accents from speech with UniSpeech: HF Trainer in fp16, padded batches of uneven clips, frozen feature encoder, class weights in the loss."""

import argparse
import tempfile
from dataclasses import dataclass

import numpy as np
import torch
import torch.nn.functional as F
from torch.utils.data import Dataset
from transformers import (
    Trainer,
    TrainingArguments,
    UniSpeechConfig,
    UniSpeechForSequenceClassification,
    set_seed,
)

RATE = 16_000
ACCENTS = 8


class Clips(Dataset):
    """A tone per accent plus noise; three to eight seconds."""

    def __init__(self, n, shortest, longest, seed):
        rng = np.random.default_rng(seed)
        self.labels = rng.choice(
            ACCENTS, n, p=np.arange(1, ACCENTS + 1) / sum(range(1, ACCENTS + 1))
        )
        self.lengths = (rng.uniform(shortest, longest, n) * RATE).astype(int)
        self.seed = seed

    def __len__(self):
        return len(self.labels)

    def __getitem__(self, i):
        rng = np.random.default_rng([self.seed, i])
        t = np.arange(self.lengths[i], dtype=np.float32) / RATE
        wave = np.sin(2 * np.pi * (120 + 40 * self.labels[i]) * t) + 0.5 * rng.standard_normal(
            len(t), dtype=np.float32
        )
        wave = (wave - wave.mean()) / (wave.std() + 1e-7)
        return {"input_values": wave.astype(np.float32), "labels": int(self.labels[i])}


@dataclass
class PadWaves:
    multiple: int = RATE // 2

    def __call__(self, rows):
        longest = max(len(r["input_values"]) for r in rows)
        longest = -(-longest // self.multiple) * self.multiple
        waves = torch.zeros(len(rows), longest)
        mask = torch.zeros(len(rows), longest, dtype=torch.long)
        for i, r in enumerate(rows):
            n = len(r["input_values"])
            waves[i, :n] = torch.from_numpy(r["input_values"])
            mask[i, :n] = 1
        return {
            "input_values": waves,
            "attention_mask": mask,
            "labels": torch.tensor([r["labels"] for r in rows]),
        }


class WeightedTrainer(Trainer):
    def __init__(self, *args, weights, **kwargs):
        super().__init__(*args, **kwargs)
        self.weights = weights

    def compute_loss(self, model, inputs, return_outputs=False, num_items_in_batch=None):
        labels = inputs.pop("labels")
        outputs = model(**inputs)
        loss = F.cross_entropy(
            outputs.logits.float(), labels, weight=self.weights.to(labels.device)
        )
        return (loss, outputs) if return_outputs else loss


def balanced_accuracy(p):
    logits = p.predictions[0] if isinstance(p.predictions, tuple) else p.predictions
    guess = logits.argmax(-1)
    recalls = [
        (guess[p.label_ids == c] == c).mean() for c in range(ACCENTS) if (p.label_ids == c).any()
    ]
    return {"balanced_accuracy": float(np.mean(recalls))}


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--hidden", type=int, default=768)
    ap.add_argument("--layers", type=int, default=12)
    ap.add_argument("--conv", type=int, default=512)
    ap.add_argument("--batch", type=int, default=24)
    ap.add_argument("--steps", type=int, default=40)
    ap.add_argument("--seconds", type=float, nargs=2, default=[3.0, 8.0])
    ap.add_argument("--workers", type=int, default=4)
    args = ap.parse_args()
    set_seed(64)
    config = UniSpeechConfig(
        hidden_size=args.hidden,
        num_hidden_layers=args.layers,
        num_attention_heads=args.hidden // 64,
        intermediate_size=4 * args.hidden,
        conv_dim=[args.conv] * 7,
        layerdrop=0.0,
        num_labels=ACCENTS,
    )
    model = UniSpeechForSequenceClassification(config)
    model.freeze_feature_encoder()
    train = Clips(args.batch * args.steps, *args.seconds, seed=1)
    valid = Clips(args.batch * 5, *args.seconds, seed=2)
    counts = np.bincount(train.labels, minlength=ACCENTS).clip(1)
    with tempfile.TemporaryDirectory() as folder:
        trainer = WeightedTrainer(
            model=model,
            args=TrainingArguments(
                output_dir=folder,
                max_steps=args.steps,
                per_device_train_batch_size=args.batch,
                per_device_eval_batch_size=args.batch + args.batch // 2,
                fp16=True,
                learning_rate=3e-5,
                warmup_steps=5,
                eval_strategy="steps",
                eval_steps=20,
                save_strategy="no",
                dataloader_num_workers=args.workers,
                logging_steps=10,
                remove_unused_columns=False,
                report_to="none",
                disable_tqdm=True,
            ),
            data_collator=PadWaves(),
            train_dataset=train,
            eval_dataset=valid,
            compute_metrics=balanced_accuracy,
            weights=torch.tensor(counts.sum() / (ACCENTS * counts), dtype=torch.float32),
        )
        trainer.train()


if __name__ == "__main__":
    main()
