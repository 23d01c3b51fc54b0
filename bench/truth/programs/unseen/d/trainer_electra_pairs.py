"""Do two questions mean the same? ELECTRA with the Trainer: bf16, batches padded to their longest, best kept."""

import argparse
import random

import numpy as np
import torch
from torch.utils.data import Dataset
from transformers import (
    EarlyStoppingCallback,
    ElectraConfig,
    ElectraForSequenceClassification,
    Trainer,
    TrainingArguments,
    set_seed,
)

CLS, SEP, PAD = 101, 102, 0


class QuestionPairs(Dataset):
    """Pairs of ids; a pair means the same when the second is the first in another order."""

    def __init__(self, count, vocab, longest, seed):
        rng = random.Random(seed)
        self.rows = []
        for _ in range(count):
            length = min(longest // 2 - 2, 6 + int(rng.expovariate(1 / 40)))
            first = [rng.randrange(1000, vocab) for _ in range(length)]
            label = rng.randrange(2)
            if label:
                second = rng.sample(first, len(first))
            else:
                second = [rng.randrange(1000, vocab) for _ in range(rng.randint(5, length))]
            ids = [CLS, *first, SEP, *second, SEP]
            types = [0] * (len(first) + 2) + [1] * (len(second) + 1)
            self.rows.append({"input_ids": ids, "token_type_ids": types, "labels": label})

    def __len__(self):
        return len(self.rows)

    def __getitem__(self, i):
        return self.rows[i]


def collate(rows):
    width = max(len(row["input_ids"]) for row in rows)
    batch = {"input_ids": [], "token_type_ids": [], "attention_mask": []}
    for row in rows:
        rest = width - len(row["input_ids"])
        batch["input_ids"].append(row["input_ids"] + [PAD] * rest)
        batch["token_type_ids"].append(row["token_type_ids"] + [0] * rest)
        batch["attention_mask"].append([1] * (width - rest) + [0] * rest)
    batch = {key: torch.tensor(value) for key, value in batch.items()}
    batch["labels"] = torch.tensor([row["labels"] for row in rows])
    return batch


def compute_metrics(prediction):
    guess = np.argmax(prediction.predictions, axis=-1)
    truth = prediction.label_ids
    hit = ((guess == 1) & (truth == 1)).sum()
    precision, recall = hit / max((guess == 1).sum(), 1), hit / max((truth == 1).sum(), 1)
    f1 = 2 * precision * recall / max(precision + recall, 1e-9)
    return {"accuracy": (guess == truth).mean(), "f1": f1}


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--train-rows", type=int, default=1800)
    parser.add_argument("--eval-rows", type=int, default=600)
    parser.add_argument("--vocab", type=int, default=30522)
    parser.add_argument("--hidden", type=int, default=768)
    parser.add_argument("--layers", type=int, default=12)
    parser.add_argument("--longest", type=int, default=384)
    parser.add_argument("--batch", type=int, default=32)
    parser.add_argument("--eval-batch", type=int, default=128)
    parser.add_argument("--epochs", type=int, default=2)
    args = parser.parse_args()
    set_seed(11)
    gpu = torch.cuda.is_available()
    model = ElectraForSequenceClassification(
        ElectraConfig(
            vocab_size=args.vocab,
            embedding_size=args.hidden,
            hidden_size=args.hidden,
            num_hidden_layers=args.layers,
            num_attention_heads=args.hidden // 64,
            intermediate_size=args.hidden * 4,
            num_labels=2,
        )
    )
    training = TrainingArguments(
        output_dir="pairs",
        num_train_epochs=args.epochs,
        per_device_train_batch_size=args.batch,
        per_device_eval_batch_size=args.eval_batch,
        learning_rate=5e-5,
        weight_decay=0.01,
        warmup_steps=20,
        lr_scheduler_type="cosine",
        bf16=gpu,
        use_cpu=not gpu,
        eval_strategy="steps",
        eval_steps=25,
        save_strategy="steps",
        save_steps=25,
        save_total_limit=1,
        load_best_model_at_end=True,
        metric_for_best_model="f1",
        dataloader_num_workers=2,
        logging_steps=25,
        report_to="none",
    )
    trainer = Trainer(
        model=model,
        args=training,
        train_dataset=QuestionPairs(args.train_rows, args.vocab, args.longest, 1),
        eval_dataset=QuestionPairs(args.eval_rows, args.vocab, args.longest, 2),
        data_collator=collate,
        compute_metrics=compute_metrics,
        callbacks=[EarlyStoppingCallback(early_stopping_patience=10)],
    )
    trainer.train()
    metrics = trainer.evaluate()
    trainer.save_model("pairs/best")
    print({key: round(float(value), 4) for key, value in metrics.items()})


if __name__ == "__main__":
    main()
