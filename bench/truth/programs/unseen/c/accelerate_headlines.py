"""Headlines for news: BART with accelerate in fp16, padded to the longest of a batch, judged by beams."""

import argparse
import random

import torch
from accelerate import Accelerator
from accelerate.utils import set_seed
from torch.nn.utils.rnn import pad_sequence
from torch.utils.data import DataLoader
from transformers import (
    BartConfig,
    BartForConditionalGeneration,
    get_linear_schedule_with_warmup,
)

PAD, BOS, EOS = 1, 0, 2


def news(count, vocab, longest, seed):
    rng = random.Random(seed)
    rows = []
    for _ in range(count):
        body = [rng.randrange(3, vocab) for _ in range(rng.randint(longest // 3, longest))]
        rows.append(
            {
                "body": [BOS, *body, EOS],
                "headline": [BOS, *body[:: max(1, len(body) // 16)], EOS],
            }
        )
    return rows


def collate(rows):
    body = pad_sequence([torch.tensor(r["body"]) for r in rows], True, PAD)
    labels = pad_sequence([torch.tensor(r["headline"]) for r in rows], True, -100)
    return {"input_ids": body, "attention_mask": (body != PAD).long(), "labels": labels}


def overlap(guess, truth):
    guess, truth = set(guess) - {PAD, BOS, EOS}, set(truth) - {-100, PAD, BOS, EOS}
    return 2 * len(guess & truth) / max(1, len(guess) + len(truth))


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--vocab", type=int, default=24000)
    p.add_argument("--dim", type=int, default=768)
    p.add_argument("--layers", type=int, default=6)
    p.add_argument("--longest", type=int, default=400)
    p.add_argument("--count", type=int, default=400)
    p.add_argument("--batch", type=int, default=16)
    p.add_argument("--beams", type=int, default=4)
    p.add_argument("--epochs", type=int, default=2)
    a = p.parse_args()
    accelerator = Accelerator(
        mixed_precision="fp16" if torch.cuda.is_available() else "no",
        gradient_accumulation_steps=2,
    )
    set_seed(31)
    config = BartConfig(
        vocab_size=a.vocab,
        d_model=a.dim,
        encoder_layers=a.layers,
        decoder_layers=a.layers,
        encoder_attention_heads=max(1, a.dim // 64),
        decoder_attention_heads=max(1, a.dim // 64),
        encoder_ffn_dim=4 * a.dim,
        decoder_ffn_dim=4 * a.dim,
        max_position_embeddings=a.longest + 4,
    )
    model = BartForConditionalGeneration(config)
    optimizer = torch.optim.AdamW(model.parameters(), lr=5e-5, weight_decay=0.01)
    train = DataLoader(
        news(a.count, a.vocab, a.longest, 1), a.batch, shuffle=True, collate_fn=collate
    )
    held = DataLoader(news(a.count // 8, a.vocab, a.longest, 2), 2 * a.batch, collate_fn=collate)
    schedule = get_linear_schedule_with_warmup(optimizer, 10, a.epochs * len(train))
    model, optimizer, train, held, schedule = accelerator.prepare(
        model, optimizer, train, held, schedule
    )
    for epoch in range(a.epochs):
        model.train()
        for step, batch in enumerate(train):
            with accelerator.accumulate(model):
                loss = model(**batch).loss
                accelerator.backward(loss)
                if accelerator.sync_gradients:
                    accelerator.clip_grad_norm_(model.parameters(), 1.0)
                optimizer.step()
                schedule.step()
                optimizer.zero_grad()
            if step % 10 == 0:
                accelerator.print(f"{epoch}:{step} {loss.item():.3f}")
        model.eval()
        scores = []
        for batch in held:
            with torch.no_grad():
                text = accelerator.unwrap_model(model).generate(
                    batch["input_ids"],
                    attention_mask=batch["attention_mask"],
                    num_beams=a.beams,
                    max_new_tokens=24,
                    no_repeat_ngram_size=3,
                )
            text = accelerator.pad_across_processes(text, dim=1, pad_index=PAD)
            text, truth = accelerator.gather_for_metrics((text, batch["labels"]))
            scores += [overlap(g, t) for g, t in zip(text.tolist(), truth.tolist(), strict=True)]
        accelerator.print(f"epoch {epoch}: overlap {sum(scores) / len(scores):.3f}")
        accelerator.save_state(f"state-{epoch}")
    accelerator.wait_for_everyone()
    accelerator.unwrap_model(model).save_pretrained("headlines")


if __name__ == "__main__":
    main()
