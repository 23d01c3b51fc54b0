"""Fine-tune an MPNet encoder on three-way natural language inference with the HF Trainer."""

import argparse

import numpy as np
import torch
from torch.utils.data import Dataset
from transformers import (
    EarlyStoppingCallback,
    MPNetConfig,
    MPNetForSequenceClassification,
    Trainer,
    TrainingArguments,
    set_seed,
)


class SyntheticNLI(Dataset):
    """premise </s></s> hypothesis; the label depends on how many words the two share."""

    def __init__(self, size, max_len, vocab, seed):
        rng = np.random.default_rng(seed)
        self.ids = np.full((size, max_len), 1, dtype=np.int64)
        self.mask = np.zeros((size, max_len), dtype=np.int64)
        self.labels = rng.integers(0, 3, size)
        for i in range(size):
            n = int(rng.integers(max_len // 3, max_len // 2 - 2))
            premise = rng.integers(4, vocab, n)
            keep = [0.8, 0.4, 0.05][self.labels[i]]
            hypothesis = np.where(rng.random(n) < keep, premise, rng.integers(4, vocab, n))
            row = np.concatenate([[0], premise, [2, 2], hypothesis, [2]])[:max_len]
            self.ids[i, : len(row)] = row
            self.mask[i, : len(row)] = 1

    def __len__(self):
        return len(self.labels)

    def __getitem__(self, i):
        return {
            "input_ids": torch.from_numpy(self.ids[i]),
            "attention_mask": torch.from_numpy(self.mask[i]),
            "labels": int(self.labels[i]),
        }


def compute_metrics(pred):
    guess = pred.predictions.argmax(-1)
    out = {"accuracy": float((guess == pred.label_ids).mean())}
    for c in range(3):
        picked = pred.label_ids == c
        out[f"recall_{c}"] = float((guess[picked] == c).mean()) if picked.any() else 0.0
    return out


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--train_size", type=int, default=2000)
    p.add_argument("--eval_size", type=int, default=600)
    p.add_argument("--max_len", type=int, default=128)
    p.add_argument("--layers", type=int, default=12)
    p.add_argument("--hidden", type=int, default=768)
    p.add_argument("--epochs", type=int, default=2)
    p.add_argument("--batch", type=int, default=64)
    p.add_argument("--lr", type=float, default=3e-5)
    p.add_argument("--seed", type=int, default=13)
    args = p.parse_args()
    set_seed(args.seed)

    config = MPNetConfig(
        vocab_size=30527,
        hidden_size=args.hidden,
        num_hidden_layers=args.layers,
        num_attention_heads=12,
        intermediate_size=4 * args.hidden,
        num_labels=3,
    )
    model = MPNetForSequenceClassification(config)
    print(f"{sum(q.numel() for q in model.parameters()) / 1e6:.1f}M parameters")

    train_set = SyntheticNLI(args.train_size, args.max_len, config.vocab_size, 1)
    eval_set = SyntheticNLI(args.eval_size, args.max_len, config.vocab_size, 2)

    training_args = TrainingArguments(
        output_dir="mpnet-nli",
        num_train_epochs=args.epochs,
        per_device_train_batch_size=args.batch,
        per_device_eval_batch_size=4 * args.batch,
        learning_rate=args.lr,
        weight_decay=0.01,
        warmup_steps=10,
        lr_scheduler_type="linear",
        bf16=True,
        eval_strategy="epoch",
        save_strategy="epoch",
        save_total_limit=1,
        load_best_model_at_end=True,
        metric_for_best_model="accuracy",
        logging_steps=10,
        report_to="none",
        seed=args.seed,
    )
    trainer = Trainer(
        model=model,
        args=training_args,
        train_dataset=train_set,
        eval_dataset=eval_set,
        compute_metrics=compute_metrics,
        callbacks=[EarlyStoppingCallback(early_stopping_patience=2)],
    )
    trainer.train()
    print("best checkpoint:", trainer.state.best_model_checkpoint)
    print(trainer.evaluate())
    trainer.save_model("mpnet-nli/final")


if __name__ == "__main__":
    main()
