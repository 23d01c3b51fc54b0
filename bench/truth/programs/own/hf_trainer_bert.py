import argparse

import torch
from transformers import BertConfig, BertForSequenceClassification, Trainer, TrainingArguments

p = argparse.ArgumentParser()
p.add_argument("--batch", type=int, default=32)
p.add_argument("--seq", type=int, default=256)
p.add_argument("--bf16", action="store_true")
p.add_argument("--fp16", action="store_true")
p.add_argument("--eval", action="store_true")
p.add_argument("--ckpt", action="store_true")
p.add_argument("--optim", default="adamw_torch_fused")
a = p.parse_args()


class Reviews(torch.utils.data.Dataset):
    def __init__(self, n):
        self.n = n

    def __len__(self):
        return self.n

    def __getitem__(self, i):
        g = torch.Generator().manual_seed(i)
        return {
            "input_ids": torch.randint(0, 30000, (a.seq,), generator=g),
            "attention_mask": torch.ones(a.seq, dtype=torch.long),
            "labels": torch.tensor(i % 2),
        }


model = BertForSequenceClassification(BertConfig(num_labels=2))
args = TrainingArguments(
    "out-bert",
    per_device_train_batch_size=a.batch,
    per_device_eval_batch_size=a.batch,
    max_steps=8,
    bf16=a.bf16,
    fp16=a.fp16,
    eval_strategy="steps" if a.eval else "no",
    eval_steps=4,
    save_strategy="no",
    report_to=[],
    gradient_checkpointing=a.ckpt,
    optim=a.optim,
    logging_steps=2,
    disable_tqdm=True,
)
Trainer(model=model, args=args, train_dataset=Reviews(4000), eval_dataset=Reviews(200)).train()
