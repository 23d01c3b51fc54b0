# Continued pre-training of a Gemma-3 text model (about 0.5B parameters) on packed token blocks.
# Adafactor + gradient checkpointing + accumulation, perplexity on a held-out set.
import math
from dataclasses import dataclass, field

import torch
from torch.utils.data import Dataset
from transformers import (
    Gemma3ForCausalLM,
    Gemma3TextConfig,
    HfArgumentParser,
    Trainer,
    TrainerCallback,
    TrainingArguments,
    default_data_collator,
    set_seed,
)


@dataclass
class ModelArgs:
    hidden_size: int = 1152
    num_layers: int = 18
    vocab_size: int = 131072
    sliding_window: int = 512
    attn_implementation: str = field(default="sdpa", metadata={"help": "eager or sdpa"})


@dataclass
class DataArgs:
    block_size: int = 2048
    train_blocks: int = 160
    eval_blocks: int = 12


class PackedBlocks(Dataset):
    """One long stream of ids cut into equal blocks; the labels are the ids themselves."""

    def __init__(self, n_blocks, block_size, vocab_size, seed):
        g = torch.Generator().manual_seed(seed)
        # zipf-like: small ids often
        stream = (
            torch.rand(n_blocks * block_size, generator=g).pow(4).mul(vocab_size - 10).long() + 5
        )
        self.blocks = stream.view(n_blocks, block_size)

    def __len__(self):
        return self.blocks.size(0)

    def __getitem__(self, i):
        ids = self.blocks[i]
        return {"input_ids": ids, "attention_mask": torch.ones_like(ids), "labels": ids.clone()}


class TokensPerSecond(TrainerCallback):
    def __init__(self, tokens_per_step):
        self.tokens_per_step = tokens_per_step
        self.start = None

    def on_step_begin(self, args, state, control, **kwargs):
        if state.global_step == 2:
            import time

            self.start = time.time()

    def on_log(self, args, state, control, logs=None, **kwargs):
        if self.start is not None and state.global_step > 2:
            import time

            rate = (state.global_step - 2) * self.tokens_per_step / (time.time() - self.start)
            print(f"step {state.global_step}: {rate:,.0f} tokens/s")


def main():
    parser = HfArgumentParser((ModelArgs, DataArgs, TrainingArguments))
    defaults = dict(
        output_dir="gemma_pretrain",
        per_device_train_batch_size=4,
        per_device_eval_batch_size=4,
        gradient_accumulation_steps=4,
        gradient_checkpointing=True,
        bf16=True,
        optim="adafactor",
        learning_rate=1e-3,
        lr_scheduler_type="cosine",
        warmup_steps=3,
        num_train_epochs=2,
        logging_steps=5,
        eval_strategy="epoch",
        save_strategy="no",
        prediction_loss_only=True,
        report_to="none",
    )
    parser.set_defaults(**defaults)
    # output_dir has a default above
    margs, dargs, targs = parser.parse_args_into_dataclasses()
    set_seed(targs.seed)

    config = Gemma3TextConfig(
        vocab_size=margs.vocab_size,
        hidden_size=margs.hidden_size,
        intermediate_size=margs.hidden_size * 6,
        num_hidden_layers=margs.num_layers,
        num_attention_heads=4,
        num_key_value_heads=1,
        head_dim=256,
        sliding_window=margs.sliding_window,
        max_position_embeddings=8192,
        attn_implementation=margs.attn_implementation,
    )
    model = Gemma3ForCausalLM(config)
    model.config.use_cache = False
    print(f"parameters: {model.num_parameters() / 1e6:.1f}M")

    train = PackedBlocks(dargs.train_blocks, dargs.block_size, margs.vocab_size, 1)
    valid = PackedBlocks(dargs.eval_blocks, dargs.block_size, margs.vocab_size, 2)
    tokens = (
        targs.per_device_train_batch_size * targs.gradient_accumulation_steps * dargs.block_size
    )

    trainer = Trainer(
        model=model,
        args=targs,
        train_dataset=train,
        eval_dataset=valid,
        data_collator=default_data_collator,
        callbacks=[TokensPerSecond(tokens)],
    )
    result = trainer.train()
    metrics = result.metrics
    metrics["train_blocks"] = len(train)
    trainer.log_metrics("train", metrics)

    metrics = trainer.evaluate()
    try:
        metrics["perplexity"] = math.exp(metrics["eval_loss"])
    except OverflowError:
        metrics["perplexity"] = float("inf")
    trainer.log_metrics("eval", metrics)


if __name__ == "__main__":
    main()
