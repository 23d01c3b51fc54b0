"""LoRA on a 7B Llama (bf16) with Trainer and gradient checkpointing, then merge and generate a few answers."""

from dataclasses import dataclass, field
from typing import Optional

import torch
from peft import LoraConfig, get_peft_model
from torch.utils.data import Dataset
from transformers import (
    HfArgumentParser,
    LlamaConfig,
    LlamaForCausalLM,
    Trainer,
    TrainingArguments,
)


@dataclass
class ScriptArguments:
    hidden_size: int = field(default=4096)
    num_layers: int = field(default=32)
    vocab_size: int = field(default=32000)
    seq_len: int = field(default=1024)
    samples: int = field(default=64)
    lora_r: int = field(default=16)
    lora_alpha: int = field(default=32)
    lora_dropout: float = field(default=0.05)
    use_rslora: bool = field(default=True)
    batch_size: int = field(default=4)
    grad_accum: int = field(default=2)
    max_new_tokens: int = field(default=48)
    device: Optional[str] = field(default="cuda")


class Alpaca(Dataset):
    def __init__(self, n, seq_len, vocab, seed=0):
        g = torch.Generator().manual_seed(seed)
        self.ids = torch.randint(3, vocab, (n, seq_len), generator=g)
        self.prompt = torch.randint(seq_len // 8, seq_len // 2, (n,), generator=g)

    def __len__(self):
        return len(self.ids)

    def __getitem__(self, i):
        ids = self.ids[i]
        labels = ids.clone()
        labels[: self.prompt[i]] = -100
        return {"input_ids": ids, "attention_mask": torch.ones_like(ids), "labels": labels}


def load_model(args):
    config = LlamaConfig(
        vocab_size=args.vocab_size,
        hidden_size=args.hidden_size,
        intermediate_size=int(args.hidden_size * 2.6875),
        num_hidden_layers=args.num_layers,
        num_attention_heads=32,
        num_key_value_heads=32,
        max_position_embeddings=4096,
    )
    default = torch.get_default_dtype()
    torch.set_default_dtype(torch.bfloat16)
    try:
        with torch.device(args.device):
            model = LlamaForCausalLM(config)
    finally:
        torch.set_default_dtype(default)
    return model


def main():
    args = HfArgumentParser(ScriptArguments).parse_args_into_dataclasses()[0]
    torch.manual_seed(0)
    model = load_model(args)
    model.config.use_cache = False
    model.enable_input_require_grads()
    model = get_peft_model(
        model,
        LoraConfig(
            r=args.lora_r,
            lora_alpha=args.lora_alpha,
            lora_dropout=args.lora_dropout,
            use_rslora=args.use_rslora,
            target_modules=[
                "q_proj",
                "k_proj",
                "v_proj",
                "o_proj",
                "gate_proj",
                "up_proj",
                "down_proj",
            ],
            bias="none",
            task_type="CAUSAL_LM",
        ),
    )
    model.print_trainable_parameters()
    training_args = TrainingArguments(
        output_dir="lora_llama",
        per_device_train_batch_size=args.batch_size,
        gradient_accumulation_steps=args.grad_accum,
        gradient_checkpointing=True,
        gradient_checkpointing_kwargs={"use_reentrant": False},
        num_train_epochs=1,
        learning_rate=2e-4,
        lr_scheduler_type="cosine",
        warmup_steps=1,
        max_grad_norm=0.3,
        bf16=True,
        logging_steps=1,
        save_strategy="no",
        report_to="none",
    )
    trainer = Trainer(
        model=model,
        args=training_args,
        train_dataset=Alpaca(args.samples, args.seq_len, args.vocab_size),
    )
    trainer.train()
    model.save_pretrained("lora_llama/adapter")

    merged = model.merge_and_unload()
    merged.config.use_cache = True
    merged.gradient_checkpointing_disable()
    merged.eval()
    prompts = torch.randint(3, args.vocab_size, (4, 64), device=merged.device)
    with torch.no_grad():
        out = merged.generate(
            input_ids=prompts,
            attention_mask=torch.ones_like(prompts),
            max_new_tokens=args.max_new_tokens,
            do_sample=True,
            temperature=0.7,
            top_p=0.9,
            pad_token_id=0,
        )
    for row in out[:, 64:].tolist():
        print(row[:12], "...")


if __name__ == "__main__":
    main()
