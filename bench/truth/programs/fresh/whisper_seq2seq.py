"""Speech to text: the Seq2SeqTrainer with generation in its evaluation."""

from dataclasses import dataclass

import torch
from transformers import (
    Seq2SeqTrainer,
    Seq2SeqTrainingArguments,
    WhisperConfig,
    WhisperForConditionalGeneration,
)


class Speech(torch.utils.data.Dataset):
    def __init__(self, rows):
        self.rows = rows

    def __len__(self):
        return self.rows

    def __getitem__(self, i):
        g = torch.Generator().manual_seed(i)
        return {
            "input_features": torch.randn(80, 3000, generator=g),
            "labels": torch.randint(5, 50000, (20 + i % 40,), generator=g),
        }


@dataclass
class Collate:
    pad: int

    def __call__(self, rows):
        longest = max(len(r["labels"]) for r in rows)
        labels = torch.full((len(rows), longest), -100)
        for i, r in enumerate(rows):
            labels[i, : len(r["labels"])] = r["labels"]
        return {
            "input_features": torch.stack([r["input_features"] for r in rows]),
            "labels": labels,
        }


config = WhisperConfig(
    d_model=384,
    encoder_layers=4,
    decoder_layers=4,
    encoder_attention_heads=6,
    decoder_attention_heads=6,
    encoder_ffn_dim=1536,
    decoder_ffn_dim=1536,
    begin_suppress_tokens=None,
    suppress_tokens=None,
)
model = WhisperForConditionalGeneration(config)
arguments = Seq2SeqTrainingArguments(
    output_dir="whisper",
    per_device_train_batch_size=16,
    per_device_eval_batch_size=8,
    learning_rate=1e-5,
    warmup_steps=2,
    max_steps=10,
    fp16=True,
    eval_strategy="steps",
    eval_steps=5,
    predict_with_generate=True,
    generation_max_length=40,
    save_strategy="no",
    report_to=[],
)


def measure(prediction):
    return {"length": float((prediction.predictions != -100).sum())}


trainer = Seq2SeqTrainer(
    model=model,
    args=arguments,
    train_dataset=Speech(160),
    eval_dataset=Speech(16),
    data_collator=Collate(config.pad_token_id),
    compute_metrics=measure,
)
trainer.train()
print(trainer.evaluate())
