"""Token classification on forms (words with boxes) with LayoutLM; fp16, eval accumulation, best by loss."""

import argparse

import numpy as np
import torch
from torch.utils.data import Dataset
from transformers import (
    LayoutLMConfig,
    LayoutLMForTokenClassification,
    Trainer,
    TrainingArguments,
    set_seed,
)

TAGS = ["O", "B-HEADER", "I-HEADER", "B-QUESTION", "I-QUESTION", "B-ANSWER", "I-ANSWER"]


class Forms(Dataset):
    def __init__(self, n, length, vocab, seed):
        g = torch.Generator().manual_seed(seed)
        self.ids = torch.randint(1000, vocab, (n, length), generator=g)
        x0 = torch.randint(0, 900, (n, length), generator=g)
        y0 = torch.randint(0, 980, (n, length), generator=g).sort(dim=1).values
        width = torch.randint(10, 100, (n, length), generator=g)
        self.boxes = torch.stack([x0, y0, x0 + width, y0 + 15], dim=-1).clamp(max=1000)
        # the tag follows from where on the page the word is
        self.tags = (x0 // 150 + y0 // 330) % len(TAGS)
        filled = torch.randint(length // 2, length + 1, (n, 1), generator=g)
        self.mask = (torch.arange(length)[None] < filled).long()
        self.ids[self.mask == 0] = 0
        self.boxes[self.mask == 0] = 0
        self.tags[self.mask == 0] = -100

    def __len__(self):
        return len(self.ids)

    def __getitem__(self, i):
        return {
            "input_ids": self.ids[i],
            "bbox": self.boxes[i],
            "attention_mask": self.mask[i],
            "labels": self.tags[i],
        }


def keep_argmax(logits, labels):
    return logits.argmax(dim=-1)


def entity_metrics(pred):
    real = pred.label_ids != -100
    guess, gold = pred.predictions[real], pred.label_ids[real]
    tp = np.sum((guess == gold) & (gold > 0))
    precision, recall = tp / max(1, np.sum(guess > 0)), tp / max(1, np.sum(gold > 0))
    return {
        "precision": float(precision),
        "recall": float(recall),
        "f1": float(2 * precision * recall / max(1e-9, precision + recall)),
    }


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--train", type=int, default=320)
    p.add_argument("--valid", type=int, default=90)
    p.add_argument("--length", type=int, default=512)
    p.add_argument("--batch", type=int, default=16)
    p.add_argument("--hidden", type=int, default=768)
    p.add_argument("--layers", type=int, default=12)
    p.add_argument("--epochs", type=int, default=2)
    a = p.parse_args()
    set_seed(3)
    config = LayoutLMConfig(
        vocab_size=30522,
        hidden_size=a.hidden,
        num_hidden_layers=a.layers,
        num_attention_heads=12,
        intermediate_size=4 * a.hidden,
        num_labels=len(TAGS),
        id2label=dict(enumerate(TAGS)),
    )
    model = LayoutLMForTokenClassification(config)
    args = TrainingArguments(
        output_dir="layoutlm-forms",
        num_train_epochs=a.epochs,
        per_device_train_batch_size=a.batch,
        per_device_eval_batch_size=a.batch // 2,
        eval_accumulation_steps=4,
        learning_rate=5e-5,
        warmup_steps=4,
        fp16=True,
        eval_strategy="epoch",
        save_strategy="best",
        metric_for_best_model="eval_loss",
        load_best_model_at_end=True,
        save_total_limit=1,
        save_only_model=True,
        logging_steps=10,
        report_to="none",
    )
    trainer = Trainer(
        model=model,
        args=args,
        train_dataset=Forms(a.train, a.length, 30522, 0),
        eval_dataset=Forms(a.valid, a.length, 30522, 1),
        compute_metrics=entity_metrics,
        preprocess_logits_for_metrics=keep_argmax,
    )
    trainer.train()
    prediction = trainer.predict(Forms(20, a.length, 30522, 2))
    print(prediction.metrics)


if __name__ == "__main__":
    main()
