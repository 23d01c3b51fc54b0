"""Translation with T5 and accelerate: mixed bfloat16, accumulation, generation in each evaluation."""

import torch
from accelerate import Accelerator
from accelerate.utils import set_seed
from torch.utils.data import DataLoader
from transformers import T5Config, T5ForConditionalGeneration, get_linear_schedule_with_warmup

set_seed(3)
accelerator = Accelerator(mixed_precision="bf16", gradient_accumulation_steps=2)
model = T5ForConditionalGeneration(
    T5Config(d_model=512, d_kv=64, d_ff=2048, num_layers=6, num_heads=8, decoder_start_token_id=0)
)


def rows(count):
    return [
        {"input_ids": torch.randint(2, 32000, (128,)), "labels": torch.randint(2, 32000, (96,))}
        for _ in range(count)
    ]


train = DataLoader(rows(330), 32, shuffle=True)
valid = DataLoader(rows(100), 48)
optimizer = torch.optim.AdamW(model.parameters(), 3e-4)
schedule = get_linear_schedule_with_warmup(optimizer, 5, 100)
model, optimizer, train, valid, schedule = accelerator.prepare(
    model, optimizer, train, valid, schedule
)
best = float("inf")
for epoch in range(2):
    model.train()
    for batch in train:
        with accelerator.accumulate(model):
            loss = model(**batch).loss
            accelerator.backward(loss)
            if accelerator.sync_gradients:
                norm = accelerator.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            schedule.step()
            optimizer.zero_grad()
    model.eval()
    losses, texts = [], []
    for batch in valid:
        with torch.no_grad():
            losses.append(accelerator.gather_for_metrics(model(**batch).loss.repeat(48)))
            made = accelerator.unwrap_model(model).generate(
                batch["input_ids"], max_new_tokens=24, min_new_tokens=24
            )
            texts.extend(accelerator.gather_for_metrics(made).cpu().tolist())
    mean = torch.cat(losses).mean().item()
    if mean < best:
        best = mean
        accelerator.save_state("t5-state")
    accelerator.print(f"epoch {epoch}: {mean:.3f}, norm {norm:.2f}, {len(texts)} texts")
