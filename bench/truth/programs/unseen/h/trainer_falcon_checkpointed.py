"""Pretrain a Falcon-style decoder (multi-query attention) with gradient checkpointing and accumulation."""

import argparse
import math

import torch
from torch.utils.data import Dataset
from transformers import (
    FalconConfig,
    FalconForCausalLM,
    Trainer,
    TrainerCallback,
    TrainingArguments,
    set_seed,
)


class TokenBlocks(Dataset):
    """One long stream of token ids cut into blocks."""

    def __init__(self, blocks, block_size, vocab, seed):
        g = torch.Generator().manual_seed(seed)
        # a skewed unigram distribution, so there is something to learn
        stream = (torch.rand(blocks * block_size, generator=g) ** 3 * vocab).long()
        self.blocks = stream.view(blocks, block_size)

    def __len__(self):
        return self.blocks.size(0)

    def __getitem__(self, i):
        return {"input_ids": self.blocks[i], "labels": self.blocks[i]}


class ThroughputCallback(TrainerCallback):
    def __init__(self, tokens_per_step):
        self.tokens_per_step = tokens_per_step

    def on_log(self, args, state, control, logs=None, **kwargs):
        if logs and "loss" in logs:
            seen = state.global_step * self.tokens_per_step
            print(f"[{state.global_step}] loss {logs['loss']:.3f} after {seen / 1e3:.0f}k tokens")


def parse():
    p = argparse.ArgumentParser()
    p.add_argument("--hidden_size", type=int, default=1536)
    p.add_argument("--layers", type=int, default=14)
    p.add_argument("--heads", type=int, default=24)
    p.add_argument("--vocab", type=int, default=65024)
    p.add_argument("--block_size", type=int, default=1024)
    p.add_argument("--micro_batch", type=int, default=4)
    p.add_argument("--accumulation", type=int, default=4)
    p.add_argument("--steps", type=int, default=6)
    return p.parse_args()


def main():
    args = parse()
    set_seed(2024)
    config = FalconConfig(
        vocab_size=args.vocab,
        hidden_size=args.hidden_size,
        num_hidden_layers=args.layers,
        num_attention_heads=args.heads,
        multi_query=True,
        parallel_attn=True,
        bias=False,
        alibi=False,
        max_position_embeddings=args.block_size,
        use_cache=False,
        bos_token_id=11,
        eos_token_id=11,
    )
    model = FalconForCausalLM(config)
    print(f"Falcon with {model.num_parameters() / 1e6:.0f}M parameters")

    per_step = args.micro_batch * args.accumulation
    train_set = TokenBlocks(per_step * args.steps, args.block_size, args.vocab, 0)
    valid_set = TokenBlocks(12, args.block_size, args.vocab, 1)

    training_args = TrainingArguments(
        output_dir="falcon-small",
        max_steps=args.steps,
        per_device_train_batch_size=args.micro_batch,
        per_device_eval_batch_size=2,
        gradient_accumulation_steps=args.accumulation,
        gradient_checkpointing=True,
        gradient_checkpointing_kwargs={"use_reentrant": False},
        learning_rate=3e-4,
        adam_beta2=0.95,
        weight_decay=0.1,
        max_grad_norm=1.0,
        lr_scheduler_type="cosine",
        warmup_steps=2,
        bf16=True,
        prediction_loss_only=True,
        eval_strategy="no",
        save_strategy="no",
        logging_steps=1,
        dataloader_drop_last=True,
        report_to="none",
    )
    trainer = Trainer(
        model=model,
        args=training_args,
        train_dataset=train_set,
        eval_dataset=valid_set,
        callbacks=[ThroughputCallback(per_step * args.block_size)],
    )
    trainer.train()
    metrics = trainer.evaluate()
    print(f"validation perplexity {math.exp(min(20, metrics['eval_loss'])):.1f}")
    trainer.save_model("falcon-small/final")


if __name__ == "__main__":
    main()
