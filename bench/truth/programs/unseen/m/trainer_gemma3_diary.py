"""Pretrain a small Gemma 3 on diary pages with the Trainer: bf16, Adafactor, gradient checkpointing and accumulation; evaluates the perplexity at the end."""

import argparse
import math

import numpy as np
import torch
from torch.utils.data import Dataset
from transformers import (
    Gemma3ForCausalLM,
    Gemma3TextConfig,
    Trainer,
    TrainingArguments,
    default_data_collator,
    set_seed,
)


class DiaryPages(Dataset):
    """Packed pages of one length; words follow a Zipf-like distribution."""

    def __init__(self, pages, length, vocab, seed):
        rng = np.random.default_rng(seed)
        ids = rng.zipf(1.3, size=(pages, length)) % (vocab - 10) + 10
        ids[:, 0] = 2
        self.ids = torch.from_numpy(ids)

    def __len__(self):
        return len(self.ids)

    def __getitem__(self, i):
        return {"input_ids": self.ids[i], "labels": self.ids[i].clone()}


def parse():
    p = argparse.ArgumentParser()
    p.add_argument("--hidden", type=int, default=1152)
    p.add_argument("--layers", type=int, default=12)
    p.add_argument("--intermediate", type=int, default=6912)
    p.add_argument("--vocab", type=int, default=96_000)
    p.add_argument("--length", type=int, default=777)
    p.add_argument("--batch", type=int, default=6)
    p.add_argument("--accumulation", type=int, default=2)
    p.add_argument("--steps", type=int, default=12)
    p.add_argument("--eval_pages", type=int, default=20)
    p.add_argument("--output", default="diary")
    p.add_argument("--cpu", action="store_true")
    return p.parse_args()


def main():
    a = parse()
    set_seed(11)
    config = Gemma3TextConfig(
        vocab_size=a.vocab,
        hidden_size=a.hidden,
        intermediate_size=a.intermediate,
        num_hidden_layers=a.layers,
        num_attention_heads=4,
        num_key_value_heads=1,
        head_dim=256,
        max_position_embeddings=2048,
        sliding_window=512,
        use_cache=False,
    )
    model = Gemma3ForCausalLM(config)
    print(f"{model.num_parameters() / 1e6:.0f}M parameters, layers: {config.layer_types}")

    train = DiaryPages(a.batch * a.accumulation * a.steps, a.length, a.vocab, 1)
    held_out = DiaryPages(a.eval_pages, a.length, a.vocab, 2)
    args = TrainingArguments(
        output_dir=a.output,
        max_steps=a.steps,
        per_device_train_batch_size=a.batch,
        per_device_eval_batch_size=a.batch,
        gradient_accumulation_steps=a.accumulation,
        gradient_checkpointing=True,
        gradient_checkpointing_kwargs={"use_reentrant": False},
        optim="adafactor",
        learning_rate=2e-3,
        lr_scheduler_type="constant_with_warmup",
        warmup_steps=4,
        max_grad_norm=1.0,
        bf16=not a.cpu,
        logging_steps=2,
        save_strategy="no",
        prediction_loss_only=True,
        report_to="none",
        use_cpu=a.cpu,
    )
    trainer = Trainer(
        model=model,
        args=args,
        train_dataset=train,
        eval_dataset=held_out,
        data_collator=default_data_collator,
    )
    outcome = trainer.train()
    print(outcome.metrics)
    loss = trainer.evaluate()["eval_loss"]
    print(f"held out: loss {loss:.3f} perplexity {math.exp(min(loss, 20)):.1f}")


if __name__ == "__main__":
    main()
