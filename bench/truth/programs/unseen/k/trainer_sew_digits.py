"""Spoken digit strings with SEW and CTC: HF Trainer, recordings of different lengths, bf16, accumulation over two batches."""

import torch
from torch.nn.utils.rnn import pad_sequence
from torch.utils.data import Dataset
from transformers import SEWConfig, SEWForCTC, Trainer, TrainingArguments, set_seed

RATE = 16000
SHORTEST, LONGEST = 2.0, 6.0
RECORDINGS = 672
BATCH = 56


class Recordings(Dataset):
    def __init__(self, n):
        g = torch.Generator().manual_seed(0)
        self.seconds = SHORTEST + (LONGEST - SHORTEST) * torch.rand(n, generator=g)

    def __len__(self):
        return len(self.seconds)

    def __getitem__(self, i):
        g = torch.Generator().manual_seed(1000 + i)
        samples = int(self.seconds[i] * RATE)
        digits = torch.randint(5, 15, (max(3, int(self.seconds[i] * 3)),), generator=g)
        t = torch.arange(samples) / RATE
        which = (torch.arange(samples) * len(digits) // samples).clamp(max=len(digits) - 1)
        wave = torch.sin(2 * torch.pi * (120.0 + 40.0 * digits[which]) * t)
        return {
            "input_values": wave + 0.1 * torch.randn(samples, generator=g),
            "labels": digits,
        }


def collate(rows):
    waves = [(r["input_values"] - r["input_values"].mean()) / r["input_values"].std() for r in rows]
    sizes = torch.tensor([len(w) for w in waves])
    padded = pad_sequence(waves, batch_first=True)
    return {
        "input_values": padded,
        "attention_mask": (torch.arange(padded.size(1))[None] < sizes[:, None]).long(),
        "labels": pad_sequence([r["labels"] for r in rows], batch_first=True, padding_value=-100),
    }


set_seed(55)
model = SEWForCTC(
    SEWConfig(
        vocab_size=32,
        hidden_size=512,
        num_hidden_layers=12,
        num_attention_heads=8,
        intermediate_size=2048,
        layerdrop=0.0,
        ctc_zero_infinity=True,
    )
)
trainer = Trainer(
    model=model,
    args=TrainingArguments(
        output_dir="sew_digits",
        max_steps=8,
        per_device_train_batch_size=BATCH,
        gradient_accumulation_steps=2,
        learning_rate=3e-4,
        warmup_steps=3,
        bf16=True,
        logging_steps=2,
        save_strategy="no",
        dataloader_num_workers=2,
        report_to="none",
        seed=55,
    ),
    train_dataset=Recordings(RECORDINGS),
    data_collator=collate,
)
result = trainer.train()
print("loss", result.training_loss)
