"""GPT-2 in Trainer: accumulation, evaluation, saving, and what its options choose."""

import argparse

import torch
from transformers import GPT2Config, GPT2LMHeadModel, Trainer, TrainingArguments

parser = argparse.ArgumentParser()
parser.add_argument("--batch", type=int, default=4)
parser.add_argument("--accumulate", type=int, default=4)
parser.add_argument("--seq", type=int, default=512)
parser.add_argument("--precision", default="fp16")
parser.add_argument("--checkpointing", action="store_true")
parser.add_argument("--optim", default="adamw_torch")
args = parser.parse_args()


class Texts(torch.utils.data.Dataset):
    def __init__(self, count):
        self.count = count

    def __len__(self):
        return self.count

    def __getitem__(self, i):
        ids = torch.randint(0, 50000, (args.seq,), generator=torch.Generator().manual_seed(i))
        return {"input_ids": ids, "labels": ids}


settings = TrainingArguments(
    "out-gpt2",
    per_device_train_batch_size=args.batch,
    per_device_eval_batch_size=2 * args.batch,
    gradient_accumulation_steps=args.accumulate,
    num_train_epochs=1,
    max_steps=12,
    fp16=args.precision == "fp16",
    bf16=args.precision == "bf16",
    gradient_checkpointing=args.checkpointing,
    optim=args.optim,
    eval_strategy="steps",
    eval_steps=6,
    save_strategy="steps",
    save_steps=6,
    logging_steps=3,
    report_to=[],
    prediction_loss_only=True,
)
trainer = Trainer(
    GPT2LMHeadModel(GPT2Config()), settings, train_dataset=Texts(2000), eval_dataset=Texts(50)
)
trainer.train()
print(trainer.evaluate())
