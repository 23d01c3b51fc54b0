"""Speech to letters: wav2vec 2.0 with CTC and the Trainer, clips of different lengths, feature encoder frozen."""

import os

import numpy as np
import torch
from transformers import Trainer, TrainingArguments, Wav2Vec2Config, Wav2Vec2ForCTC

SECONDS = float(os.environ.get("SECONDS_MAX", "12"))
CLIPS = int(os.environ.get("CLIPS", "240"))
BATCH = int(os.environ.get("BATCH", "12"))
LAYERS = int(os.environ.get("LAYERS", "12"))
WIDTH = int(os.environ.get("WIDTH", "768"))
RATE = 16_000


class Clips(torch.utils.data.Dataset):
    def __init__(self, count, seed):
        rng = np.random.default_rng(seed)
        self.lengths = (rng.uniform(0.4, 1.0, count) * SECONDS * RATE).astype(int)
        self.seed = seed

    def __len__(self):
        return len(self.lengths)

    def __getitem__(self, i):
        rng = np.random.default_rng((self.seed, i))
        speech = rng.standard_normal(self.lengths[i]).astype(np.float32)
        letters = rng.integers(1, 32, max(2, self.lengths[i] // RATE * 6))
        return {"input_values": speech, "labels": letters}


def collate(features):
    longest = max(len(f["input_values"]) for f in features)
    most = max(len(f["labels"]) for f in features)
    values = torch.zeros(len(features), longest)
    mask = torch.zeros(len(features), longest, dtype=torch.long)
    labels = torch.full((len(features), most), -100)
    for i, f in enumerate(features):
        n = len(f["input_values"])
        values[i, :n] = torch.from_numpy(f["input_values"])
        mask[i, :n] = 1
        labels[i, : len(f["labels"])] = torch.from_numpy(f["labels"])
    return {"input_values": values, "attention_mask": mask, "labels": labels}


def letters_only(logits, labels):
    return logits.argmax(-1)


def compute_metrics(pred):
    blanks = (pred.predictions == 0).mean()
    return {"blanks": float(blanks)}


def main():
    config = Wav2Vec2Config(
        vocab_size=32,
        hidden_size=WIDTH,
        num_hidden_layers=LAYERS,
        num_attention_heads=WIDTH // 64,
        intermediate_size=4 * WIDTH,
        ctc_loss_reduction="mean",
        ctc_zero_infinity=True,
        layerdrop=0.0,
        mask_time_prob=0.05,
        pad_token_id=0,
    )
    model = Wav2Vec2ForCTC(config)
    model.freeze_feature_encoder()
    args = TrainingArguments(
        output_dir="wav2vec",
        per_device_train_batch_size=BATCH,
        per_device_eval_batch_size=BATCH,
        eval_strategy="epoch",
        save_strategy="epoch",
        num_train_epochs=1,
        bf16=torch.cuda.is_available(),
        learning_rate=1e-4,
        weight_decay=0.005,
        warmup_steps=5,
        logging_steps=5,
        dataloader_num_workers=4,
        report_to="none",
    )
    trainer = Trainer(
        model=model,
        args=args,
        data_collator=collate,
        train_dataset=Clips(CLIPS, 0),
        eval_dataset=Clips(CLIPS // 5, 1),
        compute_metrics=compute_metrics,
        preprocess_logits_for_metrics=letters_only,
    )
    trainer.train()
    print(trainer.state.log_history[-1])


if __name__ == "__main__":
    main()
