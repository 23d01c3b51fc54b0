"""ALBERT-large on paraphrase pairs with R-Drop: two passes, cross entropy plus symmetric KL."""

import numpy as np
import torch.nn.functional as F
from datasets import Dataset
from transformers import AlbertConfig, AlbertForSequenceClassification, Trainer, TrainingArguments

MAX_LEN = 128
TRAIN = 720
VALID = 400
BATCH = 24
HIDDEN = 1024
LAYERS = 24
HEADS = 16
KL_WEIGHT = 1.0
VOCAB = 30000


def make_pairs(n, seed):
    rng = np.random.default_rng(seed)
    half = MAX_LEN // 2
    left = rng.integers(5, VOCAB, (n, half - 2))
    labels = rng.integers(0, 2, n)
    shuffled = rng.permuted(left, axis=1)
    other = rng.integers(5, VOCAB, (n, half - 2))
    right = np.where(labels[:, None] == 1, shuffled, other)
    cls, sep = np.full((n, 1), 2), np.full((n, 1), 3)
    ids = np.concatenate([cls, left, sep, right, sep, sep], axis=1)[:, :MAX_LEN]
    types = np.concatenate([np.zeros((n, half)), np.ones((n, MAX_LEN - half))], axis=1).astype(int)
    return Dataset.from_dict(
        {
            "input_ids": ids.tolist(),
            "token_type_ids": types.tolist(),
            "attention_mask": np.ones_like(ids).tolist(),
            "labels": labels.tolist(),
        }
    )


class RDropTrainer(Trainer):
    def compute_loss(self, model, inputs, return_outputs=False, num_items_in_batch=None):
        if not model.training:
            outputs = model(**inputs)
            return (outputs.loss, outputs) if return_outputs else outputs.loss
        first = model(**inputs)
        second = model(**inputs)
        p = F.log_softmax(first.logits.float(), dim=-1)
        q = F.log_softmax(second.logits.float(), dim=-1)
        kl = 0.5 * (
            F.kl_div(p, q, log_target=True, reduction="batchmean")
            + F.kl_div(q, p, log_target=True, reduction="batchmean")
        )
        loss = 0.5 * (first.loss + second.loss) + KL_WEIGHT * kl
        return (loss, first) if return_outputs else loss


def f1(pred):
    guess = pred.predictions.argmax(-1)
    tp = int(((guess == 1) & (pred.label_ids == 1)).sum())
    return {
        "accuracy": float((guess == pred.label_ids).mean()),
        "f1": 2 * tp / max(1, int((guess == 1).sum() + (pred.label_ids == 1).sum())),
    }


config = AlbertConfig(
    vocab_size=VOCAB,
    embedding_size=128,
    hidden_size=HIDDEN,
    num_hidden_layers=LAYERS,
    num_attention_heads=HEADS,
    intermediate_size=4 * HIDDEN,
    hidden_dropout_prob=0.1,
    attention_probs_dropout_prob=0.1,
    classifier_dropout_prob=0.1,
    num_labels=2,
)
model = AlbertForSequenceClassification(config)

args = TrainingArguments(
    output_dir="albert-rdrop",
    num_train_epochs=1,
    per_device_train_batch_size=BATCH,
    per_device_eval_batch_size=100,
    learning_rate=2e-5,
    lr_scheduler_type="polynomial",
    warmup_steps=6,
    bf16=True,
    eval_strategy="steps",
    eval_steps=15,
    save_strategy="steps",
    save_steps=15,
    load_best_model_at_end=True,
    metric_for_best_model="f1",
    greater_is_better=True,
    save_total_limit=2,
    logging_steps=5,
    report_to="none",
)
trainer = RDropTrainer(
    model=model,
    args=args,
    train_dataset=make_pairs(TRAIN, 0),
    eval_dataset=make_pairs(VALID, 1),
    compute_metrics=f1,
)
trainer.train()
print("final:", trainer.evaluate())
