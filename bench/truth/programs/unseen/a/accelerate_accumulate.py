"""Causal language model with accelerate: accumulation, clipping, resumable state, perplexity at every epoch."""

import argparse
import math

import torch
from accelerate import Accelerator
from accelerate.utils import ProjectConfiguration, set_seed
from torch.utils.data import DataLoader, Dataset
from tqdm.auto import tqdm
from transformers import GPTNeoXConfig, GPTNeoXForCausalLM, get_scheduler

SENTENCES = [
    "The harbour was quiet when the last ferry left for the islands.",
    "Nobody remembered who had painted the door green.",
    "She counted the lamps twice, and both times one was missing.",
    "Rain came from the west, and with it the smell of cut grass.",
]


class ByteBlocks(Dataset):
    def __init__(self, blocks, block_size, offset=0):
        text = " ".join(
            SENTENCES[(i * 7 + offset) % len(SENTENCES)]
            for i in range(blocks * block_size // 40 + 8)
        )
        ids = torch.tensor(list(text.encode("utf-8")))
        self.ids = ids[: blocks * block_size].view(blocks, block_size)

    def __len__(self):
        return len(self.ids)

    def __getitem__(self, i):
        return {"input_ids": self.ids[i], "labels": self.ids[i]}


def parse_args():
    parser = argparse.ArgumentParser()
    parser.add_argument("--blocks", type=int, default=384)
    parser.add_argument("--block-size", type=int, default=1024)
    parser.add_argument("--batch-size", type=int, default=8)
    parser.add_argument("--accumulation", type=int, default=4)
    parser.add_argument("--hidden", type=int, default=1024)
    parser.add_argument("--layers", type=int, default=12)
    parser.add_argument("--epochs", type=int, default=1)
    parser.add_argument("--lr", type=float, default=3e-4)
    parser.add_argument("--output", default="state")
    return parser.parse_args()


def main():
    args = parse_args()
    accelerator = Accelerator(
        mixed_precision="bf16" if torch.cuda.is_available() else "no",
        gradient_accumulation_steps=args.accumulation,
        project_config=ProjectConfiguration(
            project_dir=args.output, automatic_checkpoint_naming=True, total_limit=1
        ),
    )
    set_seed(1234)
    config = GPTNeoXConfig(
        vocab_size=256,
        hidden_size=args.hidden,
        num_hidden_layers=args.layers,
        num_attention_heads=args.hidden // 64,
        intermediate_size=args.hidden * 4,
        max_position_embeddings=args.block_size,
    )
    model = GPTNeoXForCausalLM(config)
    no_decay = ["bias", "layernorm", "layer_norm"]
    groups = [
        {
            "params": [p for n, p in model.named_parameters() if not any(k in n for k in no_decay)],
            "weight_decay": 0.1,
        },
        {
            "params": [p for n, p in model.named_parameters() if any(k in n for k in no_decay)],
            "weight_decay": 0.0,
        },
    ]
    optimizer = torch.optim.AdamW(groups, lr=args.lr)
    train_loader = DataLoader(
        ByteBlocks(args.blocks, args.block_size), args.batch_size, shuffle=True
    )
    eval_loader = DataLoader(
        ByteBlocks(max(args.blocks // 8, 2), args.block_size, 1), args.batch_size * 2
    )
    steps = math.ceil(len(train_loader) / args.accumulation) * args.epochs
    scheduler = get_scheduler("linear", optimizer, num_warmup_steps=2, num_training_steps=steps)
    model, optimizer, train_loader, eval_loader, scheduler = accelerator.prepare(
        model, optimizer, train_loader, eval_loader, scheduler
    )
    progress = tqdm(range(steps), disable=not accelerator.is_local_main_process)
    for epoch in range(args.epochs):
        model.train()
        total = 0.0
        for batch in train_loader:
            with accelerator.accumulate(model):
                loss = model(**batch).loss
                total += loss.detach().float()
                accelerator.backward(loss)
                if accelerator.sync_gradients:
                    accelerator.clip_grad_norm_(model.parameters(), 1.0)
                optimizer.step()
                scheduler.step()
                optimizer.zero_grad()
            if accelerator.sync_gradients:
                progress.update(1)
                progress.set_postfix(loss=f"{loss.item():.3f}")
        accelerator.save_state()
        model.eval()
        losses = []
        for batch in eval_loader:
            with torch.no_grad():
                out = model(**batch)
            losses.append(
                accelerator.gather_for_metrics(out.loss.repeat(batch["input_ids"].shape[0]))
            )
        mean = torch.cat(losses).mean()
        perplexity = math.exp(min(mean.item(), 50))
        accelerator.print(
            f"epoch {epoch}: train {total.item() / len(train_loader):.3f}, perplexity {perplexity:.2f}"
        )
    accelerator.wait_for_everyone()
    accelerator.unwrap_model(model).save_pretrained("neox", save_function=accelerator.save)


if __name__ == "__main__":
    main()
