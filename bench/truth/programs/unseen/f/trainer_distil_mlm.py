"""DistilBERT from nothing on masked words: Trainer in bf16, guesses instead of logits kept for the metrics."""

import math

import torch
from transformers import (
    DistilBertConfig,
    DistilBertForMaskedLM,
    Trainer,
    TrainerCallback,
    TrainingArguments,
    set_seed,
)

VOCAB = 30522
MASK, PAD = 103, 0
MAX_LENGTH = 256
TRAIN_ROWS, EVAL_ROWS = 2560, 900
TRAIN_BATCH, EVAL_BATCH = 48, 192


def make_rows(count, seed):
    g = torch.Generator().manual_seed(seed)
    rows = []
    for _ in range(count):
        length = int(torch.randint(32, MAX_LENGTH + 1, (1,), generator=g))
        ids = (torch.rand(length, generator=g).pow(3) * (VOCAB - 200)).long() + 150
        rows.append({"input_ids": ids})
    return rows


class MaskingCollator:
    """80 % masked, 10 % another word, 10 % as it is; padded to the longest row of the batch."""

    def __init__(self, probability=0.15):
        self.probability = probability

    def __call__(self, rows):
        longest = max(len(r["input_ids"]) for r in rows)
        ids = torch.full((len(rows), longest), PAD)
        for i, r in enumerate(rows):
            ids[i, : len(r["input_ids"])] = r["input_ids"]
        attention = (ids != PAD).long()
        labels = ids.clone()
        chosen = torch.bernoulli(torch.full(ids.shape, self.probability)).bool() & attention.bool()
        labels[~chosen] = -100
        masked = torch.bernoulli(torch.full(ids.shape, 0.8)).bool() & chosen
        ids[masked] = MASK
        other = torch.bernoulli(torch.full(ids.shape, 0.5)).bool() & chosen & ~masked
        ids[other] = torch.randint(150, VOCAB, ids.shape)[other]
        return {"input_ids": ids, "attention_mask": attention, "labels": labels}


class MemoryCallback(TrainerCallback):
    def on_log(self, args, state, control, logs=None, **kwargs):
        if logs is not None and torch.cuda.is_available():
            logs["memory_gib"] = round(torch.cuda.max_memory_allocated() / 2**30, 2)

    def on_evaluate(self, args, state, control, **kwargs):
        torch.cuda.empty_cache()


def preprocess_logits_for_metrics(logits, labels):
    if isinstance(logits, tuple):
        logits = logits[0]
    return logits.argmax(dim=-1)


def compute_metrics(eval_preds):
    guesses, labels = eval_preds
    keep = labels != -100
    return {"accuracy": float((guesses[keep] == labels[keep]).mean())}


def main():
    set_seed(13)
    model = DistilBertForMaskedLM(
        DistilBertConfig(vocab_size=VOCAB, n_layers=6, dim=768, n_heads=12)
    )
    args = TrainingArguments(
        output_dir="mlm",
        bf16=True,
        per_device_train_batch_size=TRAIN_BATCH,
        per_device_eval_batch_size=EVAL_BATCH,
        num_train_epochs=2,
        learning_rate=5e-4,
        lr_scheduler_type="cosine",
        warmup_steps=10,
        weight_decay=0.01,
        eval_strategy="steps",
        eval_steps=40,
        save_strategy="steps",
        save_steps=40,
        save_total_limit=2,
        logging_steps=20,
        dataloader_num_workers=4,
        report_to=[],
    )
    trainer = Trainer(
        model=model,
        args=args,
        train_dataset=make_rows(TRAIN_ROWS, 0),
        eval_dataset=make_rows(EVAL_ROWS, 1),
        data_collator=MaskingCollator(),
        compute_metrics=compute_metrics,
        preprocess_logits_for_metrics=preprocess_logits_for_metrics,
        callbacks=[MemoryCallback()],
    )
    result = trainer.train()
    trainer.save_model("mlm/final")
    print(result.metrics)
    metrics = trainer.evaluate()
    print(
        "perplexity", math.exp(min(metrics["eval_loss"], 20)), "accuracy", metrics["eval_accuracy"]
    )


if __name__ == "__main__":
    main()
