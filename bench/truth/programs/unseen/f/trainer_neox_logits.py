"""A small Pythia in fp16 with the Trainer; the evaluation keeps all logits to work out perplexity itself."""

import argparse

import numpy as np
import torch
import torch.nn.functional as F
from transformers import (
    EarlyStoppingCallback,
    GPTNeoXConfig,
    GPTNeoXForCausalLM,
    Trainer,
    TrainingArguments,
    default_data_collator,
)


def parse():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--layers", type=int, default=12)
    parser.add_argument("--width", type=int, default=768)
    parser.add_argument("--vocab", type=int, default=50304)
    parser.add_argument("--length", type=int, default=256)
    parser.add_argument("--rows", type=int, default=960)
    parser.add_argument("--eval-rows", type=int, default=128)
    parser.add_argument("--batch", type=int, default=12)
    parser.add_argument("--accumulate", type=int, default=4)
    parser.add_argument("--epochs", type=int, default=2)
    return parser.parse_args()


def rows(count, length, vocab, seed):
    rng = np.random.default_rng(seed)
    table = rng.permutation(vocab)
    ids = np.empty((count, length), dtype=np.int64)
    ids[:, 0] = rng.integers(0, vocab, count)
    for i in range(1, length):
        jump = rng.random(count) < 0.3
        ids[:, i] = np.where(jump, rng.integers(0, vocab, count), table[ids[:, i - 1]])
    return [{"input_ids": row, "labels": row} for row in torch.from_numpy(ids)]


def compute_metrics(result):
    logits, labels = result.predictions, result.label_ids
    pairs = zip(torch.from_numpy(logits), torch.from_numpy(labels))
    losses = [F.cross_entropy(row[:-1].float(), label[1:]) for row, label in pairs]
    return {"perplexity": torch.stack(losses).mean().exp().item()}


def main():
    opt = parse()
    torch.manual_seed(8)
    config = GPTNeoXConfig(
        vocab_size=opt.vocab,
        hidden_size=opt.width,
        num_hidden_layers=opt.layers,
        num_attention_heads=max(1, opt.width // 64),
        intermediate_size=4 * opt.width,
        max_position_embeddings=2 * opt.length,
        use_cache=False,
    )
    model = GPTNeoXForCausalLM(config)
    args = TrainingArguments(
        "pythia",
        fp16=True,
        num_train_epochs=opt.epochs,
        per_device_train_batch_size=opt.batch,
        per_device_eval_batch_size=2 * opt.batch,
        gradient_accumulation_steps=opt.accumulate,
        learning_rate=6e-4,
        adam_beta2=0.95,
        weight_decay=0.1,
        warmup_steps=5,
        eval_strategy="epoch",
        save_strategy="epoch",
        save_total_limit=1,
        load_best_model_at_end=True,
        metric_for_best_model="perplexity",
        greater_is_better=False,
        logging_steps=5,
        report_to="none",
    )
    trainer = Trainer(
        model=model,
        args=args,
        train_dataset=rows(opt.rows, opt.length, opt.vocab, 0),
        eval_dataset=rows(opt.eval_rows, opt.length, opt.vocab, 0),
        data_collator=default_data_collator,
        compute_metrics=compute_metrics,
        callbacks=[EarlyStoppingCallback(early_stopping_patience=1)],
    )
    print(trainer.train().metrics)
    for entry in trainer.state.log_history:
        if "eval_perplexity" in entry:
            print(entry["epoch"], entry["eval_perplexity"])


if __name__ == "__main__":
    main()
