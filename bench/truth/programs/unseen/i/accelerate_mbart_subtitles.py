"""Translate subtitles with an mBART: batches padded to their longest, Accelerate in bf16, BLEU-1 per epoch."""

import argparse
import random

import torch
from accelerate import Accelerator
from accelerate.utils import set_seed
from torch.nn.utils.rnn import pad_sequence
from torch.utils.data import DataLoader
from transformers import Adafactor, MBartConfig, MBartForConditionalGeneration

PAD, EOS, EN, RO = 1, 2, 250004, 250020


def args():
    p = argparse.ArgumentParser()
    p.add_argument("--pairs", type=int, default=240)
    p.add_argument("--valid", type=int, default=40)
    p.add_argument("--longest", type=int, default=90)
    p.add_argument("--batch", type=int, default=16)
    p.add_argument("--valid-batch", type=int, default=20)
    p.add_argument("--epochs", type=int, default=2)
    p.add_argument("--accumulate", type=int, default=2)
    p.add_argument("--d-model", type=int, default=1024)
    p.add_argument("--layers", type=int, default=6)
    return p.parse_args()


def subtitles(n, longest, rng):
    pairs = []
    for _ in range(n):
        k = rng.randint(4, longest)
        src = [rng.randrange(10, 250000) for _ in range(k)] + [EOS, EN]
        tgt = [rng.randrange(10, 250000) for _ in range(max(3, k + rng.randint(-3, 6)))] + [EOS, RO]
        pairs.append((torch.tensor(src), torch.tensor(tgt)))
    return pairs


def collate(pairs):
    src = pad_sequence([s for s, _ in pairs], batch_first=True, padding_value=PAD)
    tgt = pad_sequence([t for _, t in pairs], batch_first=True, padding_value=-100)
    return {"input_ids": src, "attention_mask": (src != PAD).long(), "labels": tgt}


def main():
    a = args()
    set_seed(404)
    rng = random.Random(404)
    accelerator = Accelerator(mixed_precision="bf16", gradient_accumulation_steps=a.accumulate)
    config = MBartConfig(
        vocab_size=250027,
        d_model=a.d_model,
        encoder_layers=a.layers,
        decoder_layers=a.layers,
        encoder_ffn_dim=4 * a.d_model,
        decoder_ffn_dim=4 * a.d_model,
        encoder_attention_heads=16,
        decoder_attention_heads=16,
        scale_embedding=True,
        decoder_start_token_id=RO,
    )
    model = MBartForConditionalGeneration(config)
    optimizer = Adafactor(
        model.parameters(), lr=3e-5, scale_parameter=False, relative_step=False, warmup_init=False
    )
    train = DataLoader(
        subtitles(a.pairs, a.longest, rng), batch_size=a.batch, shuffle=True, collate_fn=collate
    )
    valid = DataLoader(
        subtitles(a.valid, a.longest, rng), batch_size=a.valid_batch, collate_fn=collate
    )
    model, optimizer, train, valid = accelerator.prepare(model, optimizer, train, valid)

    for epoch in range(a.epochs):
        model.train()
        for i, batch in enumerate(train):
            with accelerator.accumulate(model):
                loss = model(**batch).loss
                accelerator.backward(loss)
                if accelerator.sync_gradients:
                    accelerator.clip_grad_value_(model.parameters(), 1.0)
                optimizer.step()
                optimizer.zero_grad()
            if i % 5 == 0:
                accelerator.print(
                    f"[{epoch}:{i}] {loss.item():.3f} {tuple(batch['input_ids'].shape)}"
                )

        model.eval()
        match = total = 0
        for batch in valid:
            with torch.no_grad():
                out = accelerator.unwrap_model(model).generate(
                    input_ids=batch["input_ids"],
                    attention_mask=batch["attention_mask"],
                    forced_bos_token_id=RO,
                    max_new_tokens=40,
                    num_beams=2,
                )
            out = accelerator.pad_across_processes(out, dim=1, pad_index=PAD)
            out, labels = accelerator.gather_for_metrics((out, batch["labels"]))
            for h, r in zip(out.cpu(), labels.cpu()):
                words = set(h.tolist()) - {PAD, EOS, RO}
                match += len(words & set(r.tolist()))
                total += len(words)
        accelerator.print(f"epoch {epoch}: precision {match / max(total, 1):.4f}")

    accelerator.save_model(model, "mbart_subtitles")


if __name__ == "__main__":
    main()
