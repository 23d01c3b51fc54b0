"""Sort patents into sections with FNet (Fourier mixing in place of attention) and the HF Trainer.

TF32, linear warm-up, evaluation with a batch four times larger, early stopping, best checkpoint at the end.
"""

import argparse
import tempfile

import numpy as np
import torch
from transformers import (
    EarlyStoppingCallback,
    FNetConfig,
    FNetForSequenceClassification,
    Trainer,
    TrainingArguments,
    set_seed,
)

SECTIONS = list("ABCDEFGHY")


class Patents(torch.utils.data.Dataset):
    def __init__(self, n, length, vocab, seed):
        rng = np.random.default_rng(seed)
        self.labels = rng.integers(0, len(SECTIONS), n)
        self.ids = rng.integers(5, vocab, (n, length))
        # A few key words of each section
        for i, y in enumerate(self.labels):
            at = rng.choice(length, length // 10, replace=False)
            self.ids[i, at] = 5 + y * 7 + rng.integers(0, 7, len(at))

    def __len__(self):
        return len(self.labels)

    def __getitem__(self, i):
        return {"input_ids": torch.tensor(self.ids[i]), "labels": int(self.labels[i])}


def metrics(prediction):
    guess = prediction.predictions.argmax(-1)
    truth = prediction.label_ids
    f1 = []
    for c in range(len(SECTIONS)):
        tp = ((guess == c) & (truth == c)).sum()
        wrong = ((guess == c) != (truth == c)).sum()
        f1.append(2 * tp / max(1, 2 * tp + wrong))
    return {"accuracy": float((guess == truth).mean()), "macro_f1": float(np.mean(f1))}


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--hidden", type=int, default=768)
    p.add_argument("--layers", type=int, default=12)
    p.add_argument("--length", type=int, default=512)
    p.add_argument("--vocab", type=int, default=32000)
    p.add_argument("--batch", type=int, default=24)
    p.add_argument("--steps", type=int, default=45)
    args = p.parse_args()

    set_seed(31)
    config = FNetConfig(
        vocab_size=args.vocab,
        hidden_size=args.hidden,
        intermediate_size=4 * args.hidden,
        num_hidden_layers=args.layers,
        max_position_embeddings=args.length,
        num_labels=len(SECTIONS),
        id2label=dict(enumerate(SECTIONS)),
        label2id={s: i for i, s in enumerate(SECTIONS)},
    )
    model = FNetForSequenceClassification(config)
    train = Patents(args.batch * args.steps, args.length, args.vocab, 1)
    test = Patents(args.batch * 8, args.length, args.vocab, 2)

    with tempfile.TemporaryDirectory() as out:
        training = TrainingArguments(
            output_dir=out,
            num_train_epochs=1,
            per_device_train_batch_size=args.batch,
            per_device_eval_batch_size=args.batch * 4,
            learning_rate=1e-4,
            warmup_steps=5,
            weight_decay=0.01,
            tf32=True,
            eval_strategy="steps",
            eval_steps=15,
            save_strategy="steps",
            save_steps=15,
            save_total_limit=1,
            load_best_model_at_end=True,
            metric_for_best_model="macro_f1",
            logging_steps=15,
            report_to="none",
            disable_tqdm=True,
            seed=31,
        )
        trainer = Trainer(
            model=model,
            args=training,
            train_dataset=train,
            eval_dataset=test,
            compute_metrics=metrics,
            callbacks=[EarlyStoppingCallback(early_stopping_patience=3)],
        )
        trainer.train()
        print(trainer.evaluate())


if __name__ == "__main__":
    main()
