"""Pairs of sentences with DeBERTa and accelerate: accumulation, metrics gathered, state saved and taken up again."""

import argparse
import os

import torch
from accelerate import Accelerator
from accelerate.utils import ProjectConfiguration, set_seed
from torch.utils.data import DataLoader
from transformers import (
    DebertaV2Config,
    DebertaV2ForSequenceClassification,
    get_linear_schedule_with_warmup,
)


def examples(count, vocab, longest, seed):
    g = torch.Generator().manual_seed(seed)
    rows = []
    for _ in range(count):
        a, b = (int(n) for n in torch.randint(longest // 8, longest // 2, (2,), generator=g))
        ids = torch.randint(5, vocab, (a + b,), generator=g)
        kinds = torch.cat([torch.zeros(a, dtype=torch.long), torch.ones(b, dtype=torch.long)])
        rows.append({"input_ids": ids, "token_type_ids": kinds, "label": int(ids[0] % 3)})
    return rows


def collate(rows):
    pad = torch.nn.utils.rnn.pad_sequence
    ids = pad([r["input_ids"] for r in rows], batch_first=True)
    return {
        "input_ids": ids,
        "token_type_ids": pad([r["token_type_ids"] for r in rows], batch_first=True),
        "attention_mask": (ids != 0).long(),
        "labels": torch.tensor([r["label"] for r in rows]),
    }


def evaluate(accelerator, model, loader):
    model.eval()
    right = seen = 0
    for batch in loader:
        with torch.no_grad():
            logits = model(**batch).logits
        guess, labels = accelerator.gather_for_metrics((logits.argmax(-1), batch["labels"]))
        right += (guess == labels).sum().item()
        seen += labels.shape[0]
    return right / seen


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--batch_size", type=int, default=24)
    parser.add_argument("--eval_batch_size", type=int, default=64)
    parser.add_argument("--gradient_accumulation_steps", type=int, default=2)
    parser.add_argument("--num_epochs", type=int, default=2)
    parser.add_argument("--rows", type=int, default=900)
    parser.add_argument("--longest", type=int, default=320)
    parser.add_argument("--layers", type=int, default=12)
    parser.add_argument("--width", type=int, default=768)
    parser.add_argument("--vocab", type=int, default=128100)
    args = parser.parse_args()
    project = ProjectConfiguration(
        project_dir="deberta", automatic_checkpoint_naming=True, total_limit=1
    )
    accelerator = Accelerator(
        mixed_precision="bf16",
        gradient_accumulation_steps=args.gradient_accumulation_steps,
        project_config=project,
    )
    set_seed(33)
    config = DebertaV2Config(
        vocab_size=args.vocab,
        hidden_size=args.width,
        num_hidden_layers=args.layers,
        num_attention_heads=args.width // 64,
        intermediate_size=4 * args.width,
        type_vocab_size=2,
        relative_attention=True,
        position_buckets=256,
        norm_rel_ebd="layer_norm",
        share_att_key=True,
        pos_att_type=["p2c", "c2p"],
        position_biased_input=False,
        num_labels=3,
    )
    model = DebertaV2ForSequenceClassification(config)
    train = DataLoader(
        examples(args.rows, args.vocab, args.longest, 0),
        args.batch_size,
        shuffle=True,
        collate_fn=collate,
    )
    val = DataLoader(
        examples(200, args.vocab, args.longest, 1), args.eval_batch_size, collate_fn=collate
    )
    optimizer = torch.optim.AdamW(model.parameters(), lr=2e-5, eps=1e-6)
    steps = len(train) * args.num_epochs // args.gradient_accumulation_steps
    schedule = get_linear_schedule_with_warmup(optimizer, 10, steps)
    model, optimizer, train, val, schedule = accelerator.prepare(
        model, optimizer, train, val, schedule
    )
    best = -1.0
    for epoch in range(args.num_epochs):
        model.train()
        for step, batch in enumerate(train):
            with accelerator.accumulate(model):
                output = model(**batch)
                accelerator.backward(output.loss)
                if accelerator.sync_gradients:
                    accelerator.clip_grad_norm_(model.parameters(), 1.0)
                optimizer.step()
                schedule.step()
                optimizer.zero_grad()
            if step % 20 == 0:
                accelerator.print(f"{epoch}.{step}: {output.loss.item():.3f}")
        score = evaluate(accelerator, model, val)
        accelerator.print(f"epoch {epoch}: accuracy {score:.3f}")
        if score > best:
            best = score
            accelerator.save_state()
    accelerator.load_state()
    accelerator.print("best again:", evaluate(accelerator, model, val))
    unwrapped = accelerator.unwrap_model(model)
    unwrapped.save_pretrained(os.path.join("deberta", "final"), save_function=accelerator.save)
    accelerator.end_training()


if __name__ == "__main__":
    main()
