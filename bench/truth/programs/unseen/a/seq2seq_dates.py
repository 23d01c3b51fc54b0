"""Teach a small BART to rewrite dates, with Seq2SeqTrainer and generation in the evaluation."""

import argparse
import random

import numpy as np
import torch
from tokenizers import Regex, Tokenizer, models, pre_tokenizers
from transformers import (
    BartConfig,
    BartForConditionalGeneration,
    DataCollatorForSeq2Seq,
    PreTrainedTokenizerFast,
    Seq2SeqTrainer,
    Seq2SeqTrainingArguments,
    set_seed,
)

MONTHS = [
    "January",
    "February",
    "March",
    "April",
    "May",
    "June",
    "July",
    "August",
    "September",
    "October",
    "November",
    "December",
]


def char_tokenizer():
    chars = [chr(c) for c in range(32, 127)]
    vocab = {t: i for i, t in enumerate(["<s>", "<pad>", "</s>", "<unk>", *chars])}
    tokenizer = Tokenizer(models.WordLevel(vocab, unk_token="<unk>"))
    tokenizer.pre_tokenizer = pre_tokenizers.Split(Regex("."), "isolated")
    return PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        bos_token="<s>",
        eos_token="</s>",
        pad_token="<pad>",
        unk_token="<unk>",
    )


def make_pairs(count, seed):
    rng = random.Random(seed)
    for _ in range(count):
        y, m, d = rng.randint(1900, 2099), rng.randint(1, 12), rng.randint(1, 28)
        noise = "".join(rng.choice("abcdefgh ") for _ in range(rng.randint(20, 150)))
        yield f"{noise} on {MONTHS[m - 1]} {d}, {y}", f"{y:04d}-{m:02d}-{d:02d}"


def encode(tokenizer, pairs, max_source):
    rows = []
    for source, target in pairs:
        row = tokenizer(source, truncation=True, max_length=max_source - 1)
        row["input_ids"] = [*row["input_ids"], tokenizer.eos_token_id]
        labels = [*tokenizer(target)["input_ids"], tokenizer.eos_token_id]
        rows.append(
            {
                "input_ids": row["input_ids"],
                "attention_mask": [1] * len(row["input_ids"]),
                "labels": labels,
            }
        )
    return rows


def parse():
    p = argparse.ArgumentParser()
    p.add_argument("--train", type=int, default=1920)
    p.add_argument("--eval", type=int, default=192)
    p.add_argument("--batch", type=int, default=64)
    p.add_argument("--d-model", type=int, default=512)
    p.add_argument("--layers", type=int, default=6)
    p.add_argument("--max-source", type=int, default=192)
    p.add_argument("--num-beams", type=int, default=3)
    return p.parse_args()


def main():
    args = parse()
    set_seed(5)
    tokenizer = char_tokenizer()
    config = BartConfig(
        vocab_size=len(tokenizer),
        d_model=args.d_model,
        encoder_layers=args.layers,
        decoder_layers=args.layers,
        encoder_attention_heads=args.d_model // 64,
        decoder_attention_heads=args.d_model // 64,
        encoder_ffn_dim=args.d_model * 4,
        decoder_ffn_dim=args.d_model * 4,
        max_position_embeddings=args.max_source,
        bos_token_id=0,
        pad_token_id=1,
        eos_token_id=2,
        decoder_start_token_id=2,
        forced_eos_token_id=2,
    )
    model = BartForConditionalGeneration(config)

    def metrics(pred):
        ids = np.where(pred.predictions >= 0, pred.predictions, tokenizer.pad_token_id)
        labels = np.where(pred.label_ids >= 0, pred.label_ids, tokenizer.pad_token_id)
        said = tokenizer.batch_decode(ids, skip_special_tokens=True)
        meant = tokenizer.batch_decode(labels, skip_special_tokens=True)
        exact = np.mean([a.strip() == b.strip() for a, b in zip(said, meant, strict=True)])
        return {"exact": float(exact), "length": float(np.mean([len(s) for s in said]))}

    train_args = Seq2SeqTrainingArguments(
        output_dir="dates",
        per_device_train_batch_size=args.batch,
        per_device_eval_batch_size=args.batch,
        num_train_epochs=1,
        learning_rate=3e-4,
        label_smoothing_factor=0.1,
        bf16=torch.cuda.is_available(),
        predict_with_generate=True,
        generation_max_length=24,
        generation_num_beams=args.num_beams,
        eval_strategy="epoch",
        save_strategy="no",
        logging_steps=10,
        report_to=[],
    )
    trainer = Seq2SeqTrainer(
        model=model,
        args=train_args,
        train_dataset=encode(tokenizer, make_pairs(args.train, 1), args.max_source),
        eval_dataset=encode(tokenizer, make_pairs(args.eval, 2), args.max_source),
        data_collator=DataCollatorForSeq2Seq(tokenizer, model=model, pad_to_multiple_of=16),
        processing_class=tokenizer,
        compute_metrics=metrics,
    )
    trainer.train()
    output = trainer.predict(
        encode(tokenizer, make_pairs(args.batch, 3), args.max_source), metric_key_prefix="test"
    )
    print(output.metrics)


if __name__ == "__main__":
    main()
