"""Causal language modelling of recipes with a GPT-Neo (local and global attention) and Accelerate."""

import math
import os

import torch
from accelerate import Accelerator
from torch.utils.data import DataLoader, Dataset
from transformers import GPTNeoConfig, GPTNeoForCausalLM, get_scheduler

BLOCK = 640
VOCAB = 50257
TRAIN_BLOCKS, VALID_BLOCKS = 96, 30
BATCH, VALID_BATCH = 6, 10
ACCUMULATE = 2
EPOCHS = 2
LR = 2e-4
HIDDEN, LAYERS, HEADS = 1024, 12, 16


class Recipes(Dataset):
    def __init__(self, blocks):
        self.data = torch.randint(0, VOCAB, (blocks, BLOCK))

    def __len__(self):
        return len(self.data)

    def __getitem__(self, i):
        return {"input_ids": self.data[i], "labels": self.data[i]}


def parameter_groups(model, decay):
    no_decay = ("bias", "ln_1.weight", "ln_2.weight", "ln_f.weight")
    return [
        {
            "params": [p for n, p in model.named_parameters() if not n.endswith(no_decay)],
            "weight_decay": decay,
        },
        {
            "params": [p for n, p in model.named_parameters() if n.endswith(no_decay)],
            "weight_decay": 0.0,
        },
    ]


def main():
    accelerator = Accelerator(mixed_precision="bf16", gradient_accumulation_steps=ACCUMULATE)
    config = GPTNeoConfig(
        vocab_size=VOCAB,
        hidden_size=HIDDEN,
        num_layers=LAYERS,
        num_heads=HEADS,
        max_position_embeddings=1024,
        attention_types=[[["global", "local"], LAYERS // 2]],
        window_size=256,
        bos_token_id=VOCAB - 1,
        eos_token_id=VOCAB - 1,
        pad_token_id=VOCAB - 1,
    )
    model = GPTNeoForCausalLM(config)
    optimizer = torch.optim.AdamW(parameter_groups(model, 0.1), lr=LR, betas=(0.9, 0.95))
    train = DataLoader(Recipes(TRAIN_BLOCKS), batch_size=BATCH, shuffle=True)
    valid = DataLoader(Recipes(VALID_BLOCKS), batch_size=VALID_BATCH)
    total = EPOCHS * math.ceil(len(train) / ACCUMULATE)
    scheduler = get_scheduler("linear", optimizer, num_warmup_steps=2, num_training_steps=total)
    model, optimizer, train, valid, scheduler = accelerator.prepare(
        model, optimizer, train, valid, scheduler
    )

    for epoch in range(EPOCHS):
        model.train()
        running = 0.0
        for batch in train:
            with accelerator.accumulate(model):
                loss = model(**batch).loss
                accelerator.backward(loss)
                if accelerator.sync_gradients:
                    accelerator.clip_grad_norm_(model.parameters(), 1.0)
                optimizer.step()
                scheduler.step()
                optimizer.zero_grad(set_to_none=True)
            running += loss.detach().float()
        accelerator.print(f"epoch {epoch} train loss {running.item() / len(train):.4f}")

        model.eval()
        losses = []
        for batch in valid:
            with torch.no_grad():
                loss = model(**batch).loss
            losses.append(accelerator.gather_for_metrics(loss.repeat(batch["input_ids"].shape[0])))
        mean = torch.cat(losses).float().mean().item()
        accelerator.print(f"epoch {epoch} perplexity {math.exp(min(mean, 20)):.1f}")

        prompt = torch.randint(0, VOCAB, (6, 16), device=accelerator.device)
        sample = accelerator.unwrap_model(model).generate(
            prompt,
            attention_mask=torch.ones_like(prompt),
            do_sample=True,
            top_k=40,
            max_new_tokens=32,
        )
        accelerator.print("sample", sample[0, 16:26].tolist())

    accelerator.save_state(os.path.join("recipes", "state"))
    accelerator.print(f"peak {torch.cuda.max_memory_allocated() / 2**30:.2f} GiB")


if __name__ == "__main__":
    main()
