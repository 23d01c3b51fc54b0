"""Masked words with accelerate: texts of unlike length, accumulation, evaluation with gathered losses."""

import math
import random

import torch
from accelerate import Accelerator
from torch.utils.data import DataLoader
from transformers import RobertaConfig, RobertaForMaskedLM, get_scheduler

accelerator = Accelerator(mixed_precision="bf16", gradient_accumulation_steps=2)
g = random.Random(3)
texts = [torch.tensor([g.randint(5, 30000) for _ in range(g.randint(60, 320))]) for _ in range(400)]


def collate(rows):
    longest = math.ceil(max(map(len, rows)) / 8) * 8
    ids = torch.ones(len(rows), longest, dtype=torch.long)
    for i, r in enumerate(rows):
        ids[i, : len(r)] = r
    mask, labels = (ids != 1).long(), ids.clone()
    hidden = torch.bernoulli(torch.full(ids.shape, 0.15)).bool() & (ids != 1)
    labels[~hidden] = -100
    ids[hidden] = 4
    return {"input_ids": ids, "attention_mask": mask, "labels": labels}


train = DataLoader(texts[:320], batch_size=32, shuffle=True, collate_fn=collate)
test = DataLoader(texts[320:], batch_size=64, collate_fn=collate)
model = RobertaForMaskedLM(
    RobertaConfig(
        vocab_size=30005,
        hidden_size=512,
        num_hidden_layers=8,
        num_attention_heads=8,
        intermediate_size=2048,
        max_position_embeddings=514,
    )
)
optimizer = torch.optim.AdamW(model.parameters(), lr=5e-5)
model, optimizer, train, test = accelerator.prepare(model, optimizer, train, test)
schedule = get_scheduler("linear", optimizer, num_warmup_steps=1, num_training_steps=10)
for epoch in range(2):
    model.train()
    for batch in train:
        with accelerator.accumulate(model):
            loss = model(**batch).loss
            accelerator.backward(loss)
            if accelerator.sync_gradients:
                accelerator.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            schedule.step()
            optimizer.zero_grad()
    model.eval()
    losses = []
    for batch in test:
        with torch.no_grad():
            out = model(**batch)
        losses.append(accelerator.gather_for_metrics(out.loss.repeat(64)))
    accelerator.print(epoch, math.exp(min(20, torch.cat(losses).mean().item())))
    accelerator.save_state("masked-words")
