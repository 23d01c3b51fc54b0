# Continue training of a StarCoder2-like model on long files: gradient checkpointing + bf16 + evaluation.
import argparse

import torch
from transformers import (
    Starcoder2Config,
    Starcoder2ForCausalLM,
    Trainer,
    TrainingArguments,
    set_seed,
)


def parse():
    p = argparse.ArgumentParser()
    p.add_argument("--context", type=int, default=4096)
    p.add_argument("--batch-size", type=int, default=4)
    p.add_argument("--eval-batch-size", type=int, default=2)
    p.add_argument("--width", type=int, default=1536)
    p.add_argument("--depth", type=int, default=16)
    p.add_argument("--steps", type=int, default=12)
    p.add_argument("--vocab", type=int, default=49152)
    p.add_argument("--lr", type=float, default=2e-4)
    return p.parse_args()


class Files(torch.utils.data.Dataset):
    """Files already cut into chunks of `context` tokens."""

    def __init__(self, chunks, context, vocab, seed):
        self.chunks, self.context, self.vocab, self.seed = chunks, context, vocab, seed

    def __len__(self):
        return self.chunks

    def __getitem__(self, i):
        g = torch.Generator().manual_seed(self.seed * 100003 + i)
        ids = torch.randint(0, self.vocab, (self.context,), generator=g)
        return dict(input_ids=ids, labels=ids.clone())


def main():
    opt = parse()
    set_seed(2)
    config = Starcoder2Config(
        vocab_size=opt.vocab,
        hidden_size=opt.width,
        intermediate_size=4 * opt.width,
        num_hidden_layers=opt.depth,
        num_attention_heads=opt.width // 128,
        num_key_value_heads=2,
        max_position_embeddings=16384,
        sliding_window=None,
        residual_dropout=0.1,
        embedding_dropout=0.1,
        bos_token_id=0,
        eos_token_id=0,
    )
    device = "cuda" if torch.cuda.is_available() else "cpu"
    with torch.device(device):
        model = Starcoder2ForCausalLM(config)
    print(f"{model.num_parameters() / 1e6:.0f}M parameters on {device}")

    trainer = Trainer(
        model=model,
        args=TrainingArguments(
            output_dir="starcoder2_ckpt",
            max_steps=opt.steps,
            per_device_train_batch_size=opt.batch_size,
            per_device_eval_batch_size=opt.eval_batch_size,
            gradient_checkpointing=True,
            gradient_checkpointing_kwargs={"use_reentrant": False},
            bf16=True,
            learning_rate=opt.lr,
            lr_scheduler_type="cosine",
            warmup_steps=3,
            adam_beta2=0.95,
            max_grad_norm=1.0,
            eval_strategy="steps",
            eval_steps=6,
            prediction_loss_only=True,
            logging_steps=3,
            save_strategy="no",
            report_to=[],
        ),
        train_dataset=Files(64, opt.context, opt.vocab, seed=1),
        eval_dataset=Files(6, opt.context, opt.vocab, seed=2),
    )
    trainer.train()
    print(trainer.evaluate())


if __name__ == "__main__":
    main()
