"""A Llama of 0.8 billion parameters with the Trainer: gradient checkpointing, Adafactor, accumulation, packed rows."""

from dataclasses import dataclass, field

import numpy as np
import torch
from torch.utils.data import Dataset
from transformers import HfArgumentParser, LlamaConfig, LlamaForCausalLM, Trainer, TrainingArguments


@dataclass
class ModelArguments:
    vocab_size: int = field(default=32000)
    hidden_size: int = field(default=2048)
    intermediate_size: int = field(default=5632)
    num_hidden_layers: int = field(default=16)
    num_attention_heads: int = field(default=32)
    num_key_value_heads: int = field(default=8)


@dataclass
class DataArguments:
    block_size: int = field(default=1024)
    train_blocks: int = field(default=256)
    eval_blocks: int = field(default=16)


@dataclass
class Arguments(TrainingArguments):
    output_dir: str = "llama-out"
    per_device_train_batch_size: int = 8
    per_device_eval_batch_size: int = 2
    gradient_accumulation_steps: int = 4
    gradient_checkpointing: bool = True
    optim: str = "adafactor"
    learning_rate: float = 1e-3
    lr_scheduler_type: str = "constant_with_warmup"
    warmup_steps: int = 2
    max_steps: int = 8
    bf16: bool = True
    logging_steps: int = 2
    eval_strategy: str = "steps"
    eval_steps: int = 4
    save_strategy: str = "no"
    report_to: str = "none"
    seed: int = 17


class Packed(Dataset):
    """Documents of uneven length, joined with an end token and cut into blocks."""

    def __init__(self, blocks, size, vocab, seed):
        rng = np.random.default_rng(seed)
        stream = []
        while sum(map(len, stream)) < blocks * size:
            document = rng.integers(3, vocab, int(rng.lognormal(6, 1)) + 8)
            stream.append(np.append(document, 2))
        self.ids = np.concatenate(stream)[: blocks * size].reshape(blocks, size)

    def __len__(self):
        return len(self.ids)

    def __getitem__(self, i):
        ids = torch.from_numpy(self.ids[i].astype(np.int64))
        return {"input_ids": ids, "labels": ids.clone()}


def main():
    parser = HfArgumentParser((ModelArguments, DataArguments, Arguments))
    model_args, data_args, args = parser.parse_args_into_dataclasses(args=[])
    config = LlamaConfig(
        **vars(model_args), max_position_embeddings=data_args.block_size, tie_word_embeddings=False
    )
    config.use_cache = False
    model = LlamaForCausalLM(config)
    print(f"{model.num_parameters() / 1e9:.2f} billion parameters")
    trainer = Trainer(
        model=model,
        args=args,
        train_dataset=Packed(data_args.train_blocks, data_args.block_size, config.vocab_size, 0),
        eval_dataset=Packed(data_args.eval_blocks, data_args.block_size, config.vocab_size, 1),
    )
    trainer.train()
    trainer.log_metrics("eval", trainer.evaluate())
    if torch.cuda.is_available():
        print(torch.cuda.memory_summary(abbreviated=True)[:800])


if __name__ == "__main__":
    main()
