"""Fact checking: claim + evidence pairs -> {supports, refutes, not enough info} with DeBERTa-v3-base."""

import logging
import random

import numpy as np
import torch
from torch.utils.data import Dataset
from transformers import (
    DebertaV2Config,
    DebertaV2ForSequenceClassification,
    EarlyStoppingCallback,
    Trainer,
    TrainingArguments,
    set_seed,
)

logging.basicConfig(level=logging.INFO)
log = logging.getLogger("claims")

VOCAB = 128100
MAX_LEN = 320
N_TRAIN, N_DEV, N_TEST = 640, 200, 150
BATCH, EVAL_BATCH = 20, 48
STEPS = 24
CONFIG = dict(
    vocab_size=VOCAB,
    hidden_size=768,
    num_hidden_layers=12,
    num_attention_heads=12,
    intermediate_size=3072,
    relative_attention=True,
    position_buckets=256,
    norm_rel_ebd="layer_norm",
    share_att_key=True,
    pos_att_type=["p2c", "c2p"],
    max_position_embeddings=512,
    max_relative_positions=-1,
    position_biased_input=False,
    type_vocab_size=0,
    layer_norm_eps=1e-7,
)


class Claims(Dataset):
    def __init__(self, n, seed):
        rng = random.Random(seed)
        self.rows = []
        for _ in range(n):
            label = rng.randrange(3)
            claim = [rng.randrange(5, VOCAB) for _ in range(rng.randint(8, 32))]
            evidence = [rng.randrange(5, VOCAB) for _ in range(rng.randint(30, MAX_LEN - 40))]
            ids = [1] + claim + [2] + evidence + [2]
            self.rows.append({"input_ids": ids, "labels": label})
        self.lengths = [len(r["input_ids"]) for r in self.rows]

    def __len__(self):
        return len(self.rows)

    def __getitem__(self, i):
        return self.rows[i]


def collate(rows):
    longest = max(len(r["input_ids"]) for r in rows)
    longest = (longest + 7) // 8 * 8
    ids = torch.zeros(len(rows), longest, dtype=torch.long)
    mask = torch.zeros(len(rows), longest, dtype=torch.long)
    for k, r in enumerate(rows):
        n = len(r["input_ids"])
        ids[k, :n] = torch.tensor(r["input_ids"])
        mask[k, :n] = 1
    return {
        "input_ids": ids,
        "attention_mask": mask,
        "labels": torch.tensor([r["labels"] for r in rows]),
    }


def compute_metrics(pred):
    guess = np.argmax(pred.predictions, axis=-1)
    f1 = []
    for c in range(3):
        tp = ((guess == c) & (pred.label_ids == c)).sum()
        f1.append(2 * tp / max(1, (guess == c).sum() + (pred.label_ids == c).sum()))
    return {"accuracy": float((guess == pred.label_ids).mean()), "macro_f1": float(np.mean(f1))}


def main():
    set_seed(13)
    model = DebertaV2ForSequenceClassification(DebertaV2Config(num_labels=3, **CONFIG))
    log.info("parameters: %.1fM", model.num_parameters() / 1e6)

    args = TrainingArguments(
        output_dir="claims_out",
        per_device_train_batch_size=BATCH,
        per_device_eval_batch_size=EVAL_BATCH,
        max_steps=STEPS,
        learning_rate=2e-5,
        weight_decay=0.01,
        warmup_steps=0.1,
        lr_scheduler_type="linear",
        bf16=True,
        eval_strategy="steps",
        eval_steps=12,
        save_strategy="steps",
        save_steps=12,
        save_total_limit=1,
        save_only_model=True,
        load_best_model_at_end=True,
        metric_for_best_model="macro_f1",
        greater_is_better=True,
        train_sampling_strategy="group_by_length",
        logging_steps=4,
        report_to="none",
        disable_tqdm=True,
        seed=13,
    )
    trainer = Trainer(
        model=model,
        args=args,
        train_dataset=Claims(N_TRAIN, 0),
        eval_dataset=Claims(N_DEV, 1),
        data_collator=collate,
        compute_metrics=compute_metrics,
        callbacks=[EarlyStoppingCallback(early_stopping_patience=3)],
    )
    trainer.train()
    out = trainer.predict(Claims(N_TEST, 2), metric_key_prefix="test")
    log.info("test: %s", out.metrics)
    np.savetxt("claims_predictions.txt", out.predictions.argmax(-1), fmt="%d")


if __name__ == "__main__":
    main()
