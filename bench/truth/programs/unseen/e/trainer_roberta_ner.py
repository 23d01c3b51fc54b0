"""Names in sentences: RoBERTa for tokens with the Trainer in bf16, evaluation with larger batches, best kept."""

import os
from dataclasses import dataclass

import numpy as np
import torch
from transformers import (
    EarlyStoppingCallback,
    RobertaConfig,
    RobertaForTokenClassification,
    Trainer,
    TrainingArguments,
    set_seed,
)

LABELS = ["O", "B-PER", "I-PER", "B-ORG", "I-ORG", "B-LOC", "I-LOC", "B-MISC", "I-MISC"]
LAYERS = int(os.environ.get("LAYERS", "12"))
WIDTH = int(os.environ.get("WIDTH", "768"))
VOCAB = int(os.environ.get("VOCAB", "50265"))
LONGEST = int(os.environ.get("LONGEST", "256"))
TRAIN = int(os.environ.get("TRAIN", "2000"))
EVAL = int(os.environ.get("EVAL", "500"))
BATCH = int(os.environ.get("BATCH", "32"))
EPOCHS = int(os.environ.get("EPOCHS", "2"))


class Sentences(torch.utils.data.Dataset):
    def __init__(self, count, seed):
        rng = np.random.default_rng(seed)
        self.rows = []
        for _ in range(count):
            length = int(rng.integers(LONGEST // 4, LONGEST + 1))
            ids = rng.integers(4, VOCAB, length)
            tags = np.where(ids % 5 == 0, ids % len(LABELS), 0)
            tags[rng.random(length) < 0.2] = -100
            self.rows.append({"input_ids": ids.tolist(), "labels": tags.tolist()})

    def __len__(self):
        return len(self.rows)

    def __getitem__(self, i):
        return self.rows[i]


@dataclass
class PadToMultiple:
    multiple: int = 8

    def __call__(self, rows):
        longest = max(len(row["input_ids"]) for row in rows)
        longest = -(-longest // self.multiple) * self.multiple
        batch = {"input_ids": [], "attention_mask": [], "labels": []}
        for row in rows:
            gap = longest - len(row["input_ids"])
            batch["input_ids"].append(row["input_ids"] + [1] * gap)
            batch["attention_mask"].append([1] * len(row["input_ids"]) + [0] * gap)
            batch["labels"].append(row["labels"] + [-100] * gap)
        return {name: torch.tensor(rows) for name, rows in batch.items()}


def compute_metrics(result):
    guesses = result.predictions.argmax(-1)
    keep = result.label_ids != -100
    names = keep & (result.label_ids > 0)
    return {
        "accuracy": float((guesses == result.label_ids)[keep].mean()),
        "recall": float((guesses == result.label_ids)[names].mean()),
    }


def main():
    set_seed(11)
    config = RobertaConfig(
        vocab_size=VOCAB,
        hidden_size=WIDTH,
        num_hidden_layers=LAYERS,
        num_attention_heads=max(1, WIDTH // 64),
        intermediate_size=4 * WIDTH,
        max_position_embeddings=514,
        type_vocab_size=1,
        num_labels=len(LABELS),
        id2label=dict(enumerate(LABELS)),
        label2id={label: i for i, label in enumerate(LABELS)},
    )
    model = RobertaForTokenClassification(config)
    args = TrainingArguments(
        output_dir="ner",
        learning_rate=2e-5,
        per_device_train_batch_size=BATCH,
        per_device_eval_batch_size=4 * BATCH,
        num_train_epochs=EPOCHS,
        weight_decay=0.01,
        bf16=torch.cuda.is_available(),
        eval_strategy="epoch",
        save_strategy="epoch",
        save_total_limit=1,
        load_best_model_at_end=True,
        metric_for_best_model="recall",
        logging_steps=20,
        dataloader_num_workers=2,
        report_to="none",
    )
    trainer = Trainer(
        model=model,
        args=args,
        train_dataset=Sentences(TRAIN, 0),
        eval_dataset=Sentences(EVAL, 1),
        data_collator=PadToMultiple(),
        compute_metrics=compute_metrics,
        callbacks=[EarlyStoppingCallback(early_stopping_patience=2)],
    )
    trainer.train()
    print(trainer.evaluate())
    output = trainer.predict(Sentences(EVAL // 2, 2))
    print(output.metrics, output.predictions.shape)


if __name__ == "__main__":
    main()
