"""T5 rewrites sentences: Seq2SeqTrainer whose evaluation writes with beams, then again after training."""

import numpy as np
import torch
from transformers import (
    GenerationConfig,
    Seq2SeqTrainer,
    Seq2SeqTrainingArguments,
    T5Config,
    T5ForConditionalGeneration,
    set_seed,
)

VOCAB, PAD, EOS = 32128, 0, 1
SOURCE, TARGET = 256, 96
ROWS, EVAL_ROWS = 640, 96
BATCH, EVAL_BATCH = 32, 48
BEAMS = 5

set_seed(21)


class Rewrites(torch.utils.data.Dataset):
    def __init__(self, count, seed):
        self.rng = np.random.default_rng(seed)
        self.lengths = self.rng.integers(SOURCE // 4, SOURCE, count)
        self.seed = seed

    def __len__(self):
        return len(self.lengths)

    def __getitem__(self, i):
        rng = np.random.default_rng((self.seed, i))
        source = rng.integers(5, VOCAB - 200, self.lengths[i])
        target = source[::3][: TARGET - 1]
        return {"input_ids": [*source.tolist(), EOS], "labels": [*target.tolist(), EOS]}


def pad(rows, value):
    longest = max(len(row) for row in rows)
    return torch.tensor([row + [value] * (longest - len(row)) for row in rows])


def collate(features):
    ids = pad([f["input_ids"] for f in features], PAD)
    labels = pad([f["labels"] for f in features], -100)
    return {
        "input_ids": ids,
        "attention_mask": (ids != PAD).long(),
        "labels": labels,
        # the smoothed loss is worked out outside the model, which then needs its own inputs
        "decoder_input_ids": model.prepare_decoder_input_ids_from_labels(labels=labels),
    }


def overlap(eval_pred):
    guesses, labels = eval_pred
    scores = []
    for guess, label in zip(guesses, labels):
        truth = {t for t in label.tolist() if t > EOS}
        said = {t for t in guess.tolist() if t > EOS}
        scores.append(len(truth & said) / max(1, len(truth)))
    return {"overlap": float(np.mean(scores)), "length": float((guesses > EOS).sum(1).mean())}


config = T5Config(
    vocab_size=VOCAB,
    d_model=768,
    d_kv=64,
    d_ff=2048,
    num_layers=12,
    num_heads=12,
    feed_forward_proj="gated-gelu",
    decoder_start_token_id=PAD,
    dropout_rate=0.1,
)
model = T5ForConditionalGeneration(config)
model.generation_config = GenerationConfig(
    decoder_start_token_id=PAD,
    eos_token_id=EOS,
    pad_token_id=PAD,
    max_length=TARGET,
    num_beams=BEAMS,
)
args = Seq2SeqTrainingArguments(
    output_dir="t5",
    per_device_train_batch_size=BATCH,
    per_device_eval_batch_size=EVAL_BATCH,
    num_train_epochs=2,
    learning_rate=1e-3,
    label_smoothing_factor=0.1,
    max_grad_norm=1.0,
    bf16=True,
    eval_strategy="epoch",
    save_strategy="epoch",
    save_total_limit=1,
    save_only_model=True,
    predict_with_generate=True,
    logging_steps=10,
    report_to="none",
)
trainer = Seq2SeqTrainer(
    model=model,
    args=args,
    train_dataset=Rewrites(ROWS, 0),
    eval_dataset=Rewrites(EVAL_ROWS, 1),
    data_collator=collate,
    compute_metrics=overlap,
)
trainer.train()
prediction = trainer.predict(Rewrites(EVAL_ROWS // 2, 2), max_length=TARGET // 2, num_beams=1)
print(prediction.metrics)
print(prediction.predictions.shape)
