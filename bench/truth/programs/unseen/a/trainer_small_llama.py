"""Pretrain a small Llama with the Trainer: fp16, accumulation, gradient checkpointing, checkpoints on the way."""

import math
import random
from dataclasses import dataclass, field

import torch
from torch.utils.data import IterableDataset
from transformers import (
    HfArgumentParser,
    LlamaConfig,
    LlamaForCausalLM,
    Trainer,
    TrainerCallback,
    TrainingArguments,
    default_data_collator,
)


@dataclass
class ModelArguments:
    hidden_size: int = field(default=1024)
    layers: int = field(default=10)
    heads: int = field(default=16)
    kv_heads: int = field(default=4)
    vocab: int = field(default=16000)


@dataclass
class DataArguments:
    block_size: int = field(default=768, metadata={"help": "tokens in one sample"})
    eval_blocks: int = field(default=24)


class PackedBooks(IterableDataset):
    """Endless documents, packed into blocks of the same length."""

    def __init__(self, vocab, block, blocks=None, seed=0):
        self.vocab, self.block, self.blocks, self.seed = vocab, block, blocks, seed

    def __iter__(self):
        rng = random.Random(self.seed)
        buffer, made = [], 0
        while self.blocks is None or made < self.blocks:
            while len(buffer) < self.block:
                buffer += (
                    [1] + [rng.randrange(3, self.vocab) for _ in range(rng.randint(50, 900))] + [2]
                )
            chunk, buffer = buffer[: self.block], buffer[self.block :]
            made += 1
            yield {"input_ids": torch.tensor(chunk), "labels": torch.tensor(chunk)}


class ThroughputCallback(TrainerCallback):
    def on_step_end(self, args, state, control, **kwargs):
        if state.global_step % 5 == 0 and torch.cuda.is_available():
            gib = torch.cuda.max_memory_allocated() / 2**30
            print(f"step {state.global_step}: at most {gib:.2f} GiB")


def main():
    parser = HfArgumentParser((ModelArguments, DataArguments, TrainingArguments))
    parser.set_defaults(
        output_dir="llama-small",
        fp16=torch.cuda.is_available(),
        per_device_train_batch_size=12,
        per_device_eval_batch_size=8,
        gradient_accumulation_steps=4,
        gradient_checkpointing=True,
        gradient_checkpointing_kwargs={"use_reentrant": False},
        max_steps=12,
        learning_rate=6e-4,
        warmup_steps=3,
        weight_decay=0.1,
        adam_beta2=0.95,
        max_grad_norm=1.0,
        eval_strategy="steps",
        eval_steps=6,
        save_steps=6,
        save_total_limit=1,
        logging_steps=2,
        report_to="none",
    )
    model_args, data_args, training_args = parser.parse_args_into_dataclasses()
    torch.manual_seed(training_args.seed)
    config = LlamaConfig(
        vocab_size=model_args.vocab,
        hidden_size=model_args.hidden_size,
        intermediate_size=int(model_args.hidden_size * 8 / 3) // 64 * 64,
        num_hidden_layers=model_args.layers,
        num_attention_heads=model_args.heads,
        num_key_value_heads=model_args.kv_heads,
        max_position_embeddings=data_args.block_size,
        tie_word_embeddings=False,
        use_cache=False,
    )
    model = LlamaForCausalLM(config)
    print(f"{model.num_parameters() / 1e6:.0f} M parameters")
    trainer = Trainer(
        model=model,
        args=training_args,
        train_dataset=PackedBooks(model_args.vocab, data_args.block_size),
        eval_dataset=PackedBooks(
            model_args.vocab, data_args.block_size, data_args.eval_blocks, seed=9
        ),
        data_collator=default_data_collator,
        callbacks=[ThroughputCallback()],
    )
    result = trainer.train()
    trainer.save_metrics("train", result.metrics)
    metrics = trainer.evaluate()
    print(f"perplexity {math.exp(min(metrics['eval_loss'], 20)):.1f}")


if __name__ == "__main__":
    main()
