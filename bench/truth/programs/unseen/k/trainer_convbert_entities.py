"""Entity tagging with ConvBERT: HF Trainer, fp16, Adafactor, label smoothing, compute_metrics, evaluation with a four times larger batch."""

import numpy as np
from torch.utils.data import Dataset
from transformers import (
    ConvBertConfig,
    ConvBertForTokenClassification,
    Trainer,
    TrainingArguments,
    set_seed,
)

TAGS = ["O"] + [f"{p}-{k}" for k in ("PER", "ORG", "LOC", "PRODUCT") for p in ("B", "I")]
VOCAB, LENGTH = 30522, 256


class Sentences(Dataset):
    def __init__(self, n, seed):
        rng = np.random.default_rng(seed)
        self.ids = rng.integers(1000, VOCAB, (n, LENGTH))
        self.tags = rng.integers(0, len(TAGS), (n, LENGTH))
        self.tags[rng.random((n, LENGTH)) < 0.7] = 0
        self.used = rng.integers(LENGTH // 4, LENGTH + 1, n)

    def __len__(self):
        return len(self.used)

    def __getitem__(self, i):
        mask = np.arange(LENGTH) < self.used[i]
        return {
            "input_ids": np.where(mask, self.ids[i], 1),
            "attention_mask": mask.astype(np.int64),
            "labels": np.where(mask, self.tags[i], -100),
        }


def metrics(prediction):
    logits, labels = prediction
    guess = logits.argmax(-1)
    keep = labels != -100
    entity = keep & (labels > 0)
    hits = (guess == labels) & entity
    claimed = keep & (guess > 0)
    precision = hits.sum() / max(claimed.sum(), 1)
    recall = hits.sum() / max(entity.sum(), 1)
    f1 = 2 * precision * recall / max(precision + recall, 1e-9)
    return {"precision": float(precision), "recall": float(recall), "f1": float(f1)}


if __name__ == "__main__":
    set_seed(19)
    model = ConvBertForTokenClassification(
        ConvBertConfig(
            vocab_size=VOCAB,
            num_labels=len(TAGS),
            id2label=dict(enumerate(TAGS)),
            label2id={t: i for i, t in enumerate(TAGS)},
            num_hidden_layers=10,
        )
    )
    args = TrainingArguments(
        output_dir="convbert_entities",
        num_train_epochs=2,
        per_device_train_batch_size=24,
        per_device_eval_batch_size=96,
        learning_rate=1e-4,
        optim="adafactor",
        label_smoothing_factor=0.1,
        fp16=True,
        eval_strategy="epoch",
        save_strategy="no",
        logging_steps=8,
        dataloader_num_workers=2,
        report_to="none",
        seed=19,
    )
    trainer = Trainer(
        model=model,
        args=args,
        train_dataset=Sentences(480, 1),
        eval_dataset=Sentences(192, 2),
        compute_metrics=metrics,
    )
    trainer.train()
    print(trainer.evaluate())
