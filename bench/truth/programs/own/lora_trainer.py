"""LoRA on a Qwen-like model with the Trainer of transformers: bfloat16, larger evaluation batches."""

import torch
from peft import LoraConfig, get_peft_model
from transformers import Qwen2Config, Qwen2ForCausalLM, Trainer, TrainingArguments

config = Qwen2Config(
    hidden_size=896, num_hidden_layers=12, num_attention_heads=14, num_key_value_heads=2,
    intermediate_size=4864, vocab_size=50000,
)  # fmt: skip
model = Qwen2ForCausalLM(config).to(torch.bfloat16)
model = get_peft_model(
    model,
    LoraConfig(r=32, lora_alpha=64, target_modules=["q_proj", "v_proj", "o_proj"], task_type="CAUSAL_LM"),
)  # fmt: skip


class Texts(torch.utils.data.Dataset):
    def __init__(self, count):
        self.count = count

    def __len__(self):
        return self.count

    def __getitem__(self, i):
        ids = torch.randint(0, 50000, (384,), generator=torch.Generator().manual_seed(i))
        return {"input_ids": ids, "labels": ids, "attention_mask": torch.ones_like(ids)}


arguments = TrainingArguments(
    "lora-trainer-out",
    per_device_train_batch_size=4,
    per_device_eval_batch_size=16,
    gradient_accumulation_steps=4,
    max_steps=12,
    eval_strategy="steps",
    eval_steps=6,
    save_strategy="steps",
    save_steps=6,
    bf16=True,
    logging_steps=2,
    report_to=[],
    prediction_loss_only=True,
)
trainer = Trainer(model, arguments, train_dataset=Texts(400), eval_dataset=Texts(100))
trainer.train()
print(trainer.evaluate())
