"""Mamba-2 (plain PyTorch scan) as a language model of genes: HF Trainer, bf16, accumulation, larger evaluation batch, saves every half."""

import argparse
import logging
import tempfile

import numpy as np
import torch
from transformers import (
    Mamba2Config,
    Mamba2ForCausalLM,
    Trainer,
    TrainerCallback,
    TrainingArguments,
    set_seed,
)

logger = logging.getLogger("genes")
LETTERS = {c: i + 4 for i, c in enumerate("ACGTN")}


class Genome(torch.utils.data.Dataset):
    def __init__(self, length, windows, seed):
        rng = np.random.default_rng(seed)
        codon = rng.integers(4, 8, (64, 3))
        picks = rng.integers(0, 64, windows * length // 3 + 3)
        self.text = torch.from_numpy(codon[picks].reshape(-1))
        self.length, self.windows = length, windows

    def __len__(self):
        return self.windows

    def __getitem__(self, i):
        ids = self.text[i * self.length : (i + 1) * self.length]
        return {"input_ids": ids, "labels": ids.clone()}


class BitsPerBase(TrainerCallback):
    def on_log(self, args, state, control, logs=None, **kwargs):
        for key in ("loss", "eval_loss"):
            if logs and key in logs:
                logger.info(
                    "%s at %d: %.3f bits per base", key, state.global_step, logs[key] / np.log(2)
                )


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--hidden", type=int, default=512)
    ap.add_argument("--layers", type=int, default=10)
    ap.add_argument("--state", type=int, default=32)
    ap.add_argument("--chunk", type=int, default=64)
    ap.add_argument("--length", type=int, default=1024)
    ap.add_argument("--batch", type=int, default=8)
    ap.add_argument("--steps", type=int, default=20)
    args = ap.parse_args()
    logging.basicConfig(level=logging.INFO)
    set_seed(41)
    config = Mamba2Config(
        vocab_size=16,
        hidden_size=args.hidden,
        expand=2,
        head_dim=64,
        num_heads=args.hidden * 2 // 64,
        state_size=args.state,
        n_groups=1,
        chunk_size=args.chunk,
        num_hidden_layers=args.layers,
        use_cache=False,
        tie_word_embeddings=True,
        pad_token_id=0,
        bos_token_id=1,
        eos_token_id=2,
    )
    model = Mamba2ForCausalLM(config)
    with tempfile.TemporaryDirectory() as folder:
        trainer = Trainer(
            model=model,
            args=TrainingArguments(
                output_dir=folder,
                max_steps=args.steps,
                per_device_train_batch_size=args.batch,
                per_device_eval_batch_size=args.batch * 2,
                gradient_accumulation_steps=2,
                bf16=True,
                learning_rate=6e-4,
                lr_scheduler_type="cosine",
                warmup_steps=3,
                weight_decay=0.1,
                eval_strategy="steps",
                eval_steps=args.steps // 2,
                save_strategy="steps",
                save_steps=args.steps // 2,
                save_total_limit=1,
                prediction_loss_only=True,
                logging_steps=5,
                report_to="none",
                disable_tqdm=True,
            ),
            train_dataset=Genome(args.length, args.batch * 2 * args.steps, 1),
            eval_dataset=Genome(args.length, args.batch * 6, 2),
            callbacks=[BitsPerBase()],
        )
        trainer.train()


if __name__ == "__main__":
    main()
