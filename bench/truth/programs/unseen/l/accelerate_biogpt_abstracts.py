"""BioGPT on made-up abstracts with Accelerate: run_clm style without the Trainer; bf16, evaluation each "epoch", early stop when the perplexity grows."""

import argparse
import math
import random
import tempfile

import torch
from accelerate import Accelerator
from torch.utils.data import DataLoader
from transformers import BioGptConfig, BioGptForCausalLM, default_data_collator, get_scheduler


def parse_args():
    parser = argparse.ArgumentParser()
    parser.add_argument("--per_device_train_batch_size", type=int, default=18)
    parser.add_argument("--per_device_eval_batch_size", type=int, default=24)
    parser.add_argument("--block_size", type=int, default=512)
    parser.add_argument("--learning_rate", type=float, default=3e-4)
    parser.add_argument("--weight_decay", type=float, default=0.05)
    parser.add_argument("--num_train_epochs", type=int, default=3)
    parser.add_argument("--steps_per_epoch", type=int, default=14)
    parser.add_argument("--num_warmup_steps", type=int, default=4)
    parser.add_argument("--hidden_size", type=int, default=768)
    parser.add_argument("--num_layers", type=int, default=12)
    parser.add_argument("--vocab_size", type=int, default=42_384)
    parser.add_argument("--patience", type=int, default=1)
    parser.add_argument("--seed", type=int, default=13)
    return parser.parse_args()


def abstracts(n, block, vocab, seed):
    rng = random.Random(seed)
    stream = []
    while len(stream) < n * block:
        topic = rng.randrange(100, vocab - 600)
        stream += [2] + [rng.randrange(topic, topic + 500) for _ in range(rng.randrange(80, 300))]
    blocks = [stream[i * block : (i + 1) * block] for i in range(n)]
    return [{"input_ids": b, "labels": list(b)} for b in blocks]


def main():
    args = parse_args()
    accelerator = Accelerator(mixed_precision="bf16")
    torch.manual_seed(args.seed)
    model = BioGptForCausalLM(
        BioGptConfig(
            vocab_size=args.vocab_size,
            hidden_size=args.hidden_size,
            num_hidden_layers=args.num_layers,
            num_attention_heads=args.hidden_size // 64,
            intermediate_size=args.hidden_size * 4,
            max_position_embeddings=args.block_size,
            use_cache=False,
        )
    )
    no_decay = ("bias", "layer_norm.weight")
    groups = [
        {
            "params": [p for n, p in model.named_parameters() if not n.endswith(no_decay)],
            "weight_decay": args.weight_decay,
        },
        {
            "params": [p for n, p in model.named_parameters() if n.endswith(no_decay)],
            "weight_decay": 0.0,
        },
    ]
    optimizer = torch.optim.AdamW(groups, lr=args.learning_rate)
    train = DataLoader(
        abstracts(
            args.per_device_train_batch_size * args.steps_per_epoch,
            args.block_size,
            args.vocab_size,
            1,
        ),
        shuffle=True,
        collate_fn=default_data_collator,
        batch_size=args.per_device_train_batch_size,
    )
    valid = DataLoader(
        abstracts(args.per_device_eval_batch_size * 3, args.block_size, args.vocab_size, 2),
        collate_fn=default_data_collator,
        batch_size=args.per_device_eval_batch_size,
    )
    scheduler = get_scheduler(
        "cosine",
        optimizer,
        num_warmup_steps=args.num_warmup_steps,
        num_training_steps=args.num_train_epochs * args.steps_per_epoch,
    )
    model, optimizer, train, valid, scheduler = accelerator.prepare(
        model, optimizer, train, valid, scheduler
    )

    best, bad = float("inf"), 0
    for epoch in range(args.num_train_epochs):
        model.train()
        total = 0.0
        for batch in train:
            outputs = model(**batch)
            loss = outputs.loss
            total += loss.detach().float()
            accelerator.backward(loss)
            optimizer.step()
            scheduler.step()
            optimizer.zero_grad()
        model.eval()
        losses = []
        for batch in valid:
            with torch.no_grad():
                outputs = model(**batch)
            losses.append(
                accelerator.gather_for_metrics(outputs.loss.repeat(len(batch["input_ids"])))
            )
        eval_loss = torch.cat(losses).mean().item()
        accelerator.print(
            f"epoch {epoch}: train {total.item() / len(train):.3f} ppl {math.exp(min(eval_loss, 20)):.1f}"
        )
        if eval_loss < best:
            best, bad = eval_loss, 0
            with tempfile.TemporaryDirectory() as folder:
                accelerator.unwrap_model(model).save_pretrained(
                    folder,
                    is_main_process=accelerator.is_main_process,
                    save_function=accelerator.save,
                )
        else:
            bad += 1
            if bad > args.patience:
                break


if __name__ == "__main__":
    main()
