"""Multi-label comment moderation with BERT-base and the HF Trainer.

bf16, dynamic padding, batches of similar lengths, early stopping on micro-F1 and the best checkpoint
loaded back before the final evaluation on the test split.
"""

import argparse
import random

import numpy as np
import torch
from tokenizers import Tokenizer, models, pre_tokenizers, processors
from torch.utils.data import Dataset
from transformers import (
    BertConfig,
    BertForSequenceClassification,
    DataCollatorWithPadding,
    EarlyStoppingCallback,
    PreTrainedTokenizerFast,
    Trainer,
    TrainingArguments,
    set_seed,
)

LABELS = ["toxic", "severe_toxic", "obscene", "threat", "insult", "identity_hate"]


def build_tokenizer(n_words):
    vocab = {"[PAD]": 0, "[UNK]": 1, "[CLS]": 2, "[SEP]": 3, "[MASK]": 4}
    for i in range(n_words):
        vocab[f"w{i}"] = len(vocab)
    tok = Tokenizer(models.WordLevel(vocab, unk_token="[UNK]"))
    tok.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    tok.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]", special_tokens=[("[CLS]", 2), ("[SEP]", 3)]
    )
    return PreTrainedTokenizerFast(
        tokenizer_object=tok,
        pad_token="[PAD]",
        unk_token="[UNK]",
        cls_token="[CLS]",
        sep_token="[SEP]",
        mask_token="[MASK]",
        model_max_length=384,
    )


class Comments(Dataset):
    def __init__(self, tokenizer, n, n_words, max_len, seed):
        rng = random.Random(seed)
        self.rows = []
        for _ in range(n):
            length = min(int(rng.lognormvariate(4.2, 0.8)) + 3, 600)
            text = " ".join(f"w{rng.randrange(n_words)}" for _ in range(length))
            target = [float(rng.random() < p) for p in (0.3, 0.05, 0.2, 0.05, 0.2, 0.1)]
            enc = tokenizer(text, truncation=True, max_length=max_len)
            self.rows.append(
                {
                    "input_ids": enc["input_ids"],
                    "attention_mask": enc["attention_mask"],
                    "labels": target,
                }
            )

    def __len__(self):
        return len(self.rows)

    def __getitem__(self, i):
        return dict(self.rows[i])


def compute_metrics(p):
    logits, labels = p
    probs = 1 / (1 + np.exp(-logits.astype(np.float64)))
    preds = (probs > 0.35).astype(int)
    tp = (preds * labels).sum()
    fp = (preds * (1 - labels)).sum()
    fn = ((1 - preds) * labels).sum()
    f1 = 2 * tp / max(2 * tp + fp + fn, 1)
    out = {"micro_f1": float(f1), "exact": float((preds == labels).all(axis=1).mean())}
    for j, name in enumerate(LABELS):
        out[f"rate_{name}"] = float(preds[:, j].mean())
    return out


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--train_size", type=int, default=3000)
    ap.add_argument("--layers", type=int, default=12)
    ap.add_argument("--hidden", type=int, default=768)
    ap.add_argument("--batch", type=int, default=48)
    ap.add_argument("--max_len", type=int, default=384)
    ap.add_argument("--epochs", type=int, default=3)
    ap.add_argument("--out", default="toxic_out")
    args = ap.parse_args()

    set_seed(13)
    n_words = 28000
    tokenizer = build_tokenizer(n_words)
    train_ds = Comments(tokenizer, args.train_size, n_words, args.max_len, 0)
    val_ds = Comments(tokenizer, args.train_size // 4, n_words, args.max_len, 1)
    test_ds = Comments(tokenizer, args.train_size // 4, n_words, args.max_len, 2)
    print("longest train example:", max(len(r["input_ids"]) for r in train_ds.rows))

    config = BertConfig(
        vocab_size=len(tokenizer),
        hidden_size=args.hidden,
        num_hidden_layers=args.layers,
        num_attention_heads=12,
        intermediate_size=4 * args.hidden,
        num_labels=len(LABELS),
        problem_type="multi_label_classification",
        id2label=dict(enumerate(LABELS)),
        label2id={l: i for i, l in enumerate(LABELS)},
    )
    model = BertForSequenceClassification(config)

    targs = TrainingArguments(
        output_dir=args.out,
        num_train_epochs=args.epochs,
        per_device_train_batch_size=args.batch,
        per_device_eval_batch_size=args.batch * 4,
        learning_rate=3e-5,
        weight_decay=0.01,
        warmup_steps=20,
        bf16=True,
        train_sampling_strategy="group_by_length",
        eval_strategy="epoch",
        save_strategy="epoch",
        save_total_limit=1,
        load_best_model_at_end=True,
        metric_for_best_model="micro_f1",
        greater_is_better=True,
        logging_steps=20,
        dataloader_num_workers=2,
        report_to="none",
    )
    trainer = Trainer(
        model=model,
        args=targs,
        train_dataset=train_ds,
        eval_dataset=val_ds,
        data_collator=DataCollatorWithPadding(tokenizer, pad_to_multiple_of=8),
        processing_class=tokenizer,
        compute_metrics=compute_metrics,
        callbacks=[EarlyStoppingCallback(early_stopping_patience=2)],
    )
    trainer.train()
    metrics = trainer.evaluate(test_ds, metric_key_prefix="test")
    for k in sorted(metrics):
        print(f"{k:28s} {metrics[k]:.4f}")

    # a few predictions for the moderators
    model.eval()
    texts = [" ".join(f"w{random.randrange(n_words)}" for _ in range(n)) for n in (5, 30, 100)]
    enc = tokenizer(texts, padding=True, truncation=True, return_tensors="pt").to(
        trainer.model.device
    )
    with torch.no_grad():
        p = trainer.model(
            input_ids=enc["input_ids"], attention_mask=enc["attention_mask"]
        ).logits.sigmoid()
    for row in p.float().cpu().tolist():
        print({l: round(v, 3) for l, v in zip(LABELS, row)})


if __name__ == "__main__":
    main()
