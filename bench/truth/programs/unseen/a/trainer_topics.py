"""Topic classification with the Trainer: bf16, batches grouped by length, metrics from reduced logits."""

import argparse
import random

import numpy as np
import torch
from tokenizers import Tokenizer, models, pre_tokenizers
from torch.utils.data import Dataset
from transformers import (
    DataCollatorWithPadding,
    ElectraConfig,
    ElectraForSequenceClassification,
    PreTrainedTokenizerFast,
    Trainer,
    TrainingArguments,
    set_seed,
)

TOPICS = {
    "sport": [
        "match",
        "goal",
        "team",
        "player",
        "coach",
        "season",
        "league",
        "score",
        "win",
        "loss",
    ],
    "money": [
        "bank",
        "market",
        "stock",
        "price",
        "trade",
        "profit",
        "loan",
        "rate",
        "bond",
        "fund",
    ],
    "science": [
        "cell",
        "star",
        "atom",
        "lab",
        "theory",
        "energy",
        "particle",
        "study",
        "gene",
        "field",
    ],
}


def build_tokenizer():
    words = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "the", "a", "of", "in", "and"]
    words += [word for topic in TOPICS.values() for word in topic]
    tokenizer = Tokenizer(models.WordLevel({w: i for i, w in enumerate(words)}, unk_token="[UNK]"))
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    return PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        pad_token="[PAD]",
        unk_token="[UNK]",
        cls_token="[CLS]",
        sep_token="[SEP]",
    )


class Articles(Dataset):
    def __init__(self, tokenizer, count, max_len, seed):
        rng = random.Random(seed)
        names = list(TOPICS)
        self.rows = []
        for _ in range(count):
            label = rng.randrange(len(names))
            pool = TOPICS[names[label]] + ["the", "a", "of", "in", "and"]
            text = " ".join(rng.choices(pool, k=rng.randint(20, max_len)))
            row = tokenizer(text, truncation=True, max_length=max_len)
            row["labels"] = label
            self.rows.append(dict(row))

    def __len__(self):
        return len(self.rows)

    def __getitem__(self, i):
        return self.rows[i]


def preprocess_logits_for_metrics(logits, labels):
    if isinstance(logits, tuple):
        logits = logits[0]
    return logits.argmax(dim=-1)


def compute_metrics(pred):
    predictions, labels = pred.predictions, pred.label_ids
    accuracy = float((predictions == labels).mean())
    f1 = []
    for c in range(len(TOPICS)):
        tp = np.sum((predictions == c) & (labels == c))
        fp = np.sum((predictions == c) & (labels != c))
        fn = np.sum((predictions != c) & (labels == c))
        f1.append(2 * tp / max(2 * tp + fp + fn, 1))
    return {"accuracy": accuracy, "f1": float(np.mean(f1))}


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--train-size", type=int, default=1600)
    parser.add_argument("--eval-size", type=int, default=800)
    parser.add_argument("--max-len", type=int, default=256)
    parser.add_argument("--batch", type=int, default=32)
    parser.add_argument("--eval-batch", type=int, default=160)
    parser.add_argument("--layers", type=int, default=12)
    parser.add_argument("--hidden", type=int, default=768)
    args = parser.parse_args()
    set_seed(17)
    tokenizer = build_tokenizer()
    config = ElectraConfig(
        vocab_size=len(tokenizer),
        embedding_size=args.hidden,
        hidden_size=args.hidden,
        num_hidden_layers=args.layers,
        num_attention_heads=args.hidden // 64,
        intermediate_size=args.hidden * 4,
        num_labels=len(TOPICS),
    )
    model = ElectraForSequenceClassification(config)
    training_args = TrainingArguments(
        output_dir="topics-out",
        bf16=torch.cuda.is_available(),
        per_device_train_batch_size=args.batch,
        per_device_eval_batch_size=args.eval_batch,
        num_train_epochs=1,
        learning_rate=3e-5,
        warmup_steps=5,
        lr_scheduler_type="cosine",
        train_sampling_strategy="group_by_length",
        dataloader_num_workers=2,
        eval_strategy="epoch",
        save_strategy="epoch",
        load_best_model_at_end=True,
        metric_for_best_model="f1",
        logging_steps=10,
        report_to="none",
    )
    trainer = Trainer(
        model=model,
        args=training_args,
        train_dataset=Articles(tokenizer, args.train_size, args.max_len, 1),
        eval_dataset=Articles(tokenizer, args.eval_size, args.max_len, 2),
        data_collator=DataCollatorWithPadding(tokenizer, pad_to_multiple_of=8),
        processing_class=tokenizer,
        compute_metrics=compute_metrics,
        preprocess_logits_for_metrics=preprocess_logits_for_metrics,
    )
    trainer.train()
    print(trainer.evaluate())
    trainer.save_model("topics-final")


if __name__ == "__main__":
    main()
