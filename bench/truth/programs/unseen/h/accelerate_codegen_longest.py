"""Fine-tune a CodeGen decoder on snippets padded to the longest of each batch: accelerate, fp16, accumulation."""

import math
import random

import torch
from accelerate import Accelerator
from torch.utils.data import DataLoader
from transformers import CodeGenConfig, CodeGenForCausalLM, get_scheduler

VOCAB = 51200
EMBED = 1024
LAYERS = 12
HEADS = 16
ROTARY = 32
LONGEST = 512
SNIPPETS = 216
VALID = 40
BATCH = 6
ACCUMULATE = 2
EPOCHS = 1
PAD = 50256


def snippets(n, seed):
    rng = random.Random(seed)
    rows = []
    for _ in range(n):
        length = min(
            LONGEST, max(LONGEST // 8, int(rng.lognormvariate(math.log(LONGEST / 2), 0.5)))
        )
        base = rng.randrange(0, VOCAB // 2)
        rows.append([(base + 7 * k + rng.randrange(20)) % (VOCAB - 1) for k in range(length)])
    return rows


def collate(rows):
    longest = max(map(len, rows))
    ids = torch.full((len(rows), longest), PAD % VOCAB)
    mask = torch.zeros(len(rows), longest, dtype=torch.long)
    for i, row in enumerate(rows):
        ids[i, : len(row)] = torch.tensor(row)
        mask[i, : len(row)] = 1
    return {"input_ids": ids, "attention_mask": mask, "labels": ids.masked_fill(mask == 0, -100)}


def main():
    accelerator = Accelerator(mixed_precision="fp16", gradient_accumulation_steps=ACCUMULATE)
    random.seed(0)
    torch.manual_seed(0)
    config = CodeGenConfig(
        vocab_size=VOCAB,
        n_positions=2048,
        n_ctx=2048,
        n_embd=EMBED,
        n_layer=LAYERS,
        n_head=HEADS,
        rotary_dim=ROTARY,
        use_cache=False,
        bos_token_id=1,
        eos_token_id=2,
    )
    model = CodeGenForCausalLM(config)
    accelerator.print(f"{model.num_parameters() / 1e6:.0f}M parameters")
    train = DataLoader(snippets(SNIPPETS, 1), batch_size=BATCH, shuffle=True, collate_fn=collate)
    valid = DataLoader(snippets(VALID, 2), batch_size=2 * BATCH, collate_fn=collate)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, weight_decay=0.01)
    scheduler = get_scheduler(
        "linear", optimizer, num_warmup_steps=4, num_training_steps=EPOCHS * len(train)
    )
    model, optimizer, train, valid, scheduler = accelerator.prepare(
        model, optimizer, train, valid, scheduler
    )

    done = 0
    for epoch in range(EPOCHS):
        model.train()
        for batch in train:
            with accelerator.accumulate(model):
                loss = model(**batch).loss
                accelerator.backward(loss)
                if accelerator.sync_gradients:
                    accelerator.clip_grad_norm_(model.parameters(), 1.0)
                optimizer.step()
                scheduler.step()
                optimizer.zero_grad()
            if accelerator.sync_gradients:
                done += 1
                if done % 5 == 0:
                    accelerator.print(
                        f"step {done} loss {loss.item():.3f} lr {scheduler.get_last_lr()[0]:.2e}"
                    )
        model.eval()
        losses = []
        for batch in valid:
            with torch.no_grad():
                loss = model(**batch).loss
            losses.append(accelerator.gather_for_metrics(loss.repeat(len(batch["input_ids"]))))
        mean = torch.cat(losses).mean().item()
        accelerator.print(
            f"epoch {epoch} valid loss {mean:.3f} perplexity {math.exp(min(mean, 20)):.1f}"
        )
    unwrapped = accelerator.unwrap_model(model)
    unwrapped.save_pretrained("codegen-tuned", save_function=accelerator.save)


if __name__ == "__main__":
    main()
