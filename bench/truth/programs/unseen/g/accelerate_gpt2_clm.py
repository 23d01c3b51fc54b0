#!/usr/bin/env python
"""Fine-tune a GPT-2 (medium) on text blocks without the Trainer: accelerate, accumulation, save_state, resume."""

import argparse
import logging
import math
import os
import shutil

import torch
from accelerate import Accelerator
from accelerate.utils import set_seed
from torch.utils.data import DataLoader, Dataset
from transformers import GPT2Config, GPT2LMHeadModel, default_data_collator, get_scheduler

logger = logging.getLogger(__name__)


def parse_args():
    parser = argparse.ArgumentParser()
    parser.add_argument("--n_layer", type=int, default=24)
    parser.add_argument("--n_embd", type=int, default=1024)
    parser.add_argument("--vocab_size", type=int, default=50257)
    parser.add_argument("--block_size", type=int, default=1024)
    parser.add_argument("--num_blocks", type=int, default=192)
    parser.add_argument("--per_device_train_batch_size", type=int, default=8)
    parser.add_argument("--per_device_eval_batch_size", type=int, default=8)
    parser.add_argument("--gradient_accumulation_steps", type=int, default=4)
    parser.add_argument("--learning_rate", type=float, default=5e-5)
    parser.add_argument("--weight_decay", type=float, default=0.1)
    parser.add_argument("--num_train_epochs", type=int, default=2)
    parser.add_argument("--lr_scheduler_type", default="cosine")
    parser.add_argument("--num_warmup_steps", type=int, default=2)
    parser.add_argument("--checkpointing_steps", type=int, default=6)
    parser.add_argument("--output_dir", default="clm_out")
    parser.add_argument("--seed", type=int, default=1234)
    parser.add_argument("--mixed_precision", default="bf16", choices=["no", "fp16", "bf16"])
    return parser.parse_args()


class Blocks(Dataset):
    def __init__(self, n, block, vocab, seed):
        g = torch.Generator().manual_seed(seed)
        self.ids = torch.randint(0, vocab, (n, block), generator=g)

    def __len__(self):
        return len(self.ids)

    def __getitem__(self, i):
        return {"input_ids": self.ids[i], "labels": self.ids[i]}


def main():
    args = parse_args()
    accelerator = Accelerator(
        gradient_accumulation_steps=args.gradient_accumulation_steps,
        mixed_precision=args.mixed_precision,
    )
    logging.basicConfig(format="%(asctime)s - %(levelname)s - %(message)s", level=logging.INFO)
    set_seed(args.seed)

    model = GPT2LMHeadModel(
        GPT2Config(
            vocab_size=args.vocab_size,
            n_positions=args.block_size,
            n_embd=args.n_embd,
            n_layer=args.n_layer,
            n_head=16,
        )
    )
    train_dataset = Blocks(args.num_blocks, args.block_size, args.vocab_size, 0)
    eval_dataset = Blocks(max(4, args.num_blocks // 10), args.block_size, args.vocab_size, 1)
    train_dataloader = DataLoader(
        train_dataset,
        shuffle=True,
        collate_fn=default_data_collator,
        batch_size=args.per_device_train_batch_size,
    )
    eval_dataloader = DataLoader(
        eval_dataset, collate_fn=default_data_collator, batch_size=args.per_device_eval_batch_size
    )

    no_decay = ["bias", "ln_1.weight", "ln_2.weight", "ln_f.weight"]
    optimizer_grouped_parameters = [
        {
            "params": [
                p for n, p in model.named_parameters() if not any(nd in n for nd in no_decay)
            ],
            "weight_decay": args.weight_decay,
        },
        {
            "params": [p for n, p in model.named_parameters() if any(nd in n for nd in no_decay)],
            "weight_decay": 0.0,
        },
    ]
    optimizer = torch.optim.AdamW(optimizer_grouped_parameters, lr=args.learning_rate)
    updates_per_epoch = math.ceil(len(train_dataloader) / args.gradient_accumulation_steps)
    lr_scheduler = get_scheduler(
        name=args.lr_scheduler_type,
        optimizer=optimizer,
        num_warmup_steps=args.num_warmup_steps,
        num_training_steps=args.num_train_epochs * updates_per_epoch,
    )
    model, optimizer, train_dataloader, eval_dataloader, lr_scheduler = accelerator.prepare(
        model, optimizer, train_dataloader, eval_dataloader, lr_scheduler
    )

    logger.info("***** Running training *****")
    logger.info(f"  Num examples = {len(train_dataset)}")
    logger.info(f"  Gradient Accumulation steps = {args.gradient_accumulation_steps}")
    completed_steps = 0
    checkpoints = []
    for epoch in range(args.num_train_epochs):
        model.train()
        total_loss = 0
        for step, batch in enumerate(train_dataloader):
            with accelerator.accumulate(model):
                outputs = model(**batch)
                loss = outputs.loss
                # We keep track of the loss at each epoch
                total_loss += loss.detach().float()
                accelerator.backward(loss)
                if accelerator.sync_gradients:
                    accelerator.clip_grad_norm_(model.parameters(), 1.0)
                optimizer.step()
                lr_scheduler.step()
                optimizer.zero_grad()
            if accelerator.sync_gradients:
                completed_steps += 1
                if completed_steps % args.checkpointing_steps == 0:
                    path = os.path.join(args.output_dir, f"step_{completed_steps}")
                    accelerator.save_state(path)
                    checkpoints.append(path)
                    while len(checkpoints) > 1:
                        shutil.rmtree(checkpoints.pop(0), ignore_errors=True)

        model.eval()
        losses = []
        for step, batch in enumerate(eval_dataloader):
            with torch.no_grad():
                outputs = model(**batch)
            loss = outputs.loss
            losses.append(
                accelerator.gather_for_metrics(loss.repeat(args.per_device_eval_batch_size))
            )
        losses = torch.cat(losses)
        try:
            eval_loss = torch.mean(losses)
            perplexity = math.exp(eval_loss)
        except OverflowError:
            perplexity = float("inf")
        logger.info(
            f"epoch {epoch}: train_loss {total_loss.item() / len(train_dataloader):.4f} "
            f"eval_loss {eval_loss:.4f} perplexity {perplexity:.1f}"
        )

    if checkpoints:
        # make sure the last state can be read back
        accelerator.load_state(checkpoints[-1])
        logger.info(f"reloaded {checkpoints[-1]}")
    accelerator.wait_for_everyone()
    unwrapped_model = accelerator.unwrap_model(model)
    unwrapped_model.save_pretrained(
        os.path.join(args.output_dir, "final"),
        is_main_process=accelerator.is_main_process,
        save_function=accelerator.save,
    )
    accelerator.end_training()


if __name__ == "__main__":
    main()
