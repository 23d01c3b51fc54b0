"""Half a billion parameters of a HunYuan dense decoder: HF Trainer, Adafactor, bf16, gradient checkpointing and accumulation."""

import argparse
import math
import tempfile

import torch
from torch.utils.data import Dataset
from transformers import (
    HunYuanDenseV1Config,
    HunYuanDenseV1ForCausalLM,
    Trainer,
    TrainingArguments,
    set_seed,
)


class Packed(Dataset):
    """Documents of random length, packed into windows (no padding)."""

    def __init__(self, windows, length, vocab, seed):
        g = torch.Generator().manual_seed(seed)
        stream = torch.randint(4, vocab, (windows * length,), generator=g)
        cuts = torch.randint(0, len(stream), (windows * 3,), generator=g)
        stream[cuts] = 2
        self.windows = stream.view(windows, length)

    def __len__(self):
        return len(self.windows)

    def __getitem__(self, i):
        return {"input_ids": self.windows[i], "labels": self.windows[i]}


def build(args):
    config = HunYuanDenseV1Config(
        vocab_size=args.vocab,
        hidden_size=args.hidden,
        intermediate_size=args.hidden * 8 // 3 // 64 * 64,
        num_hidden_layers=args.layers,
        num_attention_heads=args.hidden // args.head_dim,
        num_key_value_heads=max(1, args.hidden // args.head_dim // 3),
        head_dim=args.head_dim,
        max_position_embeddings=args.length,
        tie_word_embeddings=True,
        use_cache=False,
    )
    with torch.device("cuda" if torch.cuda.is_available() else "cpu"):
        return HunYuanDenseV1ForCausalLM(config)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--vocab", type=int, default=60_000)
    parser.add_argument("--hidden", type=int, default=1536)
    parser.add_argument("--head_dim", type=int, default=128)
    parser.add_argument("--layers", type=int, default=16)
    parser.add_argument("--length", type=int, default=2048)
    parser.add_argument("--batch", type=int, default=6)
    parser.add_argument("--steps", type=int, default=14)
    args = parser.parse_args()
    set_seed(90)
    model = build(args)
    print(f"{model.num_parameters() / 1e6:.0f}M parameters")
    with tempfile.TemporaryDirectory() as folder:
        training = TrainingArguments(
            output_dir=folder,
            max_steps=args.steps,
            per_device_train_batch_size=args.batch,
            per_device_eval_batch_size=args.batch,
            gradient_accumulation_steps=2,
            optim="adafactor",
            learning_rate=1e-3,
            lr_scheduler_type="constant_with_warmup",
            warmup_steps=3,
            bf16=True,
            gradient_checkpointing=True,
            max_grad_norm=1.0,
            prediction_loss_only=True,
            logging_steps=2,
            save_strategy="no",
            report_to="none",
            disable_tqdm=True,
        )
        trainer = Trainer(
            model=model,
            args=training,
            train_dataset=Packed(args.batch * 2 * args.steps, args.length, args.vocab, 1),
            eval_dataset=Packed(args.batch * 3, args.length, args.vocab, 2),
        )
        trainer.train()
        loss = trainer.evaluate()["eval_loss"]
        print(f"eval loss {loss:.3f}, ppl {math.exp(min(loss, 20)):.0f}")


if __name__ == "__main__":
    main()
