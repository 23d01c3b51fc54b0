#!/usr/bin/env python
"""Causal LM on forum posts: Nemotron (squared ReLU) with accelerate, bf16, accumulation and clipping."""

import argparse
import math
import time

import torch
from accelerate import Accelerator
from accelerate.utils import set_seed
from torch.utils.data import DataLoader, Dataset
from transformers import NemotronConfig, NemotronForCausalLM, get_scheduler


def get_options():
    ap = argparse.ArgumentParser()
    ap.add_argument("--vocab", type=int, default=128000)
    ap.add_argument("--hidden", type=int, default=1536)
    ap.add_argument("--layers", type=int, default=16)
    ap.add_argument("--heads", type=int, default=12)
    ap.add_argument("--length", type=int, default=1024)
    ap.add_argument("--batch", type=int, default=4)
    ap.add_argument("--accumulation", type=int, default=4)
    ap.add_argument("--updates", type=int, default=8)
    ap.add_argument("--lr", type=float, default=3e-4)
    return ap.parse_args()


class ForumPosts(Dataset):
    def __init__(self, n, length, vocab, seed):
        g = torch.Generator().manual_seed(seed)
        self.posts = torch.randint(0, vocab, (n, length), generator=g)

    def __len__(self):
        return len(self.posts)

    def __getitem__(self, i):
        return {"input_ids": self.posts[i], "labels": self.posts[i]}


def split_decay(model, decay):
    yes = [p for p in model.parameters() if p.dim() >= 2]
    no = [p for p in model.parameters() if p.dim() < 2]
    return [{"params": yes, "weight_decay": decay}, {"params": no, "weight_decay": 0.0}]


def evaluate(model, loader, accelerator):
    model.eval()
    losses = []
    for batch in loader:
        with torch.no_grad():
            loss = model(**batch).loss
        losses.append(accelerator.gather_for_metrics(loss.repeat(batch["input_ids"].size(0))))
    model.train()
    mean = torch.cat(losses).mean().item()
    return math.exp(min(mean, 20))


def main():
    o = get_options()
    set_seed(1234)
    accelerator = Accelerator(mixed_precision="bf16", gradient_accumulation_steps=o.accumulation)
    with torch.device(accelerator.device):
        model = NemotronForCausalLM(
            NemotronConfig(
                vocab_size=o.vocab,
                hidden_size=o.hidden,
                intermediate_size=4 * o.hidden,
                num_hidden_layers=o.layers,
                num_attention_heads=o.heads,
                num_key_value_heads=o.heads // 2,
                max_position_embeddings=o.length,
                use_cache=False,
            )
        )
    accelerator.print(f"parameters: {model.num_parameters():,}")
    optimizer = torch.optim.AdamW(split_decay(model, 0.1), lr=o.lr, betas=(0.9, 0.95))
    train = DataLoader(
        ForumPosts(o.batch * o.accumulation * o.updates, o.length, o.vocab, 1),
        o.batch,
        shuffle=True,
    )
    held_out = DataLoader(ForumPosts(10, o.length, o.vocab, 2), o.batch)
    schedule = get_scheduler("cosine", optimizer, num_warmup_steps=2, num_training_steps=o.updates)
    model, optimizer, train, held_out, schedule = accelerator.prepare(
        model, optimizer, train, held_out, schedule
    )

    start, update = time.time(), 0
    for batch in train:
        with accelerator.accumulate(model):
            loss = model(**batch).loss
            accelerator.backward(loss)
            if accelerator.sync_gradients:
                norm = accelerator.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            schedule.step()
            optimizer.zero_grad()
        if accelerator.sync_gradients:
            update += 1
            accelerator.print(f"update {update} loss {loss.item():.3f} norm {norm.item():.2f}")
    accelerator.print(
        "perplexity", evaluate(model, held_out, accelerator), f"{time.time() - start:.1f} s"
    )


if __name__ == "__main__":
    main()
