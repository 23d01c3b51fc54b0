"""A mixture of experts from a configuration, trained by the Trainer in bf16 with evaluation."""

import torch
from torch.utils.data import Dataset
from transformers import MixtralConfig, MixtralForCausalLM, Trainer, TrainingArguments


class Random(Dataset):
    def __init__(self, rows, length, words):
        self.ids = torch.randint(
            0, words, (rows, length), generator=torch.Generator().manual_seed(0)
        )

    def __len__(self):
        return len(self.ids)

    def __getitem__(self, i):
        return {"input_ids": self.ids[i], "labels": self.ids[i]}


config = MixtralConfig(
    vocab_size=32000,
    hidden_size=512,
    intermediate_size=1408,
    num_hidden_layers=6,
    num_attention_heads=8,
    num_key_value_heads=4,
    num_local_experts=8,
    num_experts_per_tok=2,
    output_router_logits=True,
)
model = MixtralForCausalLM(config)
arguments = TrainingArguments(
    output_dir="moe",
    per_device_train_batch_size=4,
    per_device_eval_batch_size=8,
    gradient_accumulation_steps=2,
    max_steps=8,
    eval_strategy="steps",
    eval_steps=4,
    bf16=True,
    logging_steps=2,
    save_strategy="no",
    report_to=[],
    prediction_loss_only=True,
)
Trainer(
    model, arguments, train_dataset=Random(64, 512, 32000), eval_dataset=Random(16, 512, 32000)
).train()
