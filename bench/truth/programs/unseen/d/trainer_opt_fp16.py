"""OPT from its configuration with the Trainer: texts joined into blocks, fp16, accumulation, perplexity."""

import math
from dataclasses import dataclass, field

import torch
from torch.utils.data import Dataset
from transformers import (
    HfArgumentParser,
    OPTConfig,
    OPTForCausalLM,
    Trainer,
    TrainingArguments,
    default_data_collator,
    set_seed,
)


@dataclass
class ModelArguments:
    hidden: int = field(default=1024, metadata={"help": "width of the model"})
    layers: int = field(default=24)
    heads: int = field(default=16)
    vocab: int = field(default=50272)
    dropout: float = field(default=0.1)


@dataclass
class DataArguments:
    documents: int = field(default=900)
    block_size: int = field(default=512)
    train_share: float = field(default=0.9)


class Blocks(Dataset):
    def __init__(self, blocks):
        self.blocks = blocks

    def __len__(self):
        return len(self.blocks)

    def __getitem__(self, i):
        ids = self.blocks[i]
        return {"input_ids": ids, "attention_mask": torch.ones_like(ids), "labels": ids.clone()}


def group_texts(data, vocab):
    """Documents of different lengths, joined and cut into blocks; the rest is dropped."""
    g = torch.Generator().manual_seed(3)
    lengths = torch.randint(100, 900, (data.documents,), generator=g).tolist()
    documents = []
    for n in lengths:
        start = torch.randint(4, vocab, (1,), generator=g)
        documents.append((start + torch.arange(n) * 7) % (vocab - 4) + 4)
        documents.append(torch.tensor([2]))
    joined = torch.cat(documents)
    total = len(joined) // data.block_size * data.block_size
    return joined[:total].view(-1, data.block_size)


def main():
    parser = HfArgumentParser((ModelArguments, DataArguments))
    parser.add_argument("--batch", type=int, default=8)
    parser.add_argument("--steps", type=int, default=14)
    spec, data, rest = parser.parse_args_into_dataclasses()
    set_seed(5)
    gpu = torch.cuda.is_available()
    config = OPTConfig(
        vocab_size=spec.vocab,
        hidden_size=spec.hidden,
        word_embed_proj_dim=spec.hidden // 2,
        do_layer_norm_before=True,
        num_hidden_layers=spec.layers,
        num_attention_heads=spec.heads,
        ffn_dim=4 * spec.hidden,
        dropout=spec.dropout,
        max_position_embeddings=2048,
    )
    model = OPTForCausalLM(config)
    print(f"{sum(p.numel() for p in model.parameters()) / 1e6:.0f}M parameters")
    blocks = group_texts(data, spec.vocab)
    cut = int(len(blocks) * data.train_share)
    arguments = TrainingArguments(
        output_dir="opt",
        per_device_train_batch_size=rest.batch,
        per_device_eval_batch_size=rest.batch,
        gradient_accumulation_steps=4,
        max_steps=rest.steps,
        learning_rate=3e-4,
        warmup_steps=4,
        weight_decay=0.1,
        adam_beta2=0.95,
        max_grad_norm=1.0,
        fp16=gpu,
        use_cpu=not gpu,
        logging_steps=5,
        save_steps=10,
        save_total_limit=1,
        prediction_loss_only=True,
        report_to="none",
    )
    trainer = Trainer(
        model=model,
        args=arguments,
        train_dataset=Blocks(blocks[:cut]),
        eval_dataset=Blocks(blocks[cut:]),
        data_collator=default_data_collator,
    )
    result = trainer.train()
    trainer.log_metrics("train", result.metrics)
    metrics = trainer.evaluate()
    try:
        perplexity = math.exp(metrics["eval_loss"])
    except OverflowError:
        perplexity = float("inf")
    print(f"perplexity {perplexity:.1f}")
    trainer.save_model()


if __name__ == "__main__":
    main()
