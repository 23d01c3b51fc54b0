"""Summaries of bug tickets with ProphetNet (future n-gram prediction) and the Seq2SeqTrainer; evaluation generates with four beams."""

import argparse
import tempfile

import numpy as np
import torch
from torch.utils.data import Dataset
from transformers import (
    GenerationConfig,
    ProphetNetConfig,
    ProphetNetForConditionalGeneration,
    Seq2SeqTrainer,
    Seq2SeqTrainingArguments,
    set_seed,
)

PAD, BOS, EOS = 0, 1, 2


class Tickets(Dataset):
    def __init__(self, n, source, target, vocab, seed):
        rng = np.random.default_rng(seed)
        self.rows = []
        for _ in range(n):
            s = rng.integers(source // 2, source + 1)
            t = rng.integers(target // 3, target)
            body = rng.integers(3, vocab, s)
            head = np.append(np.sort(rng.choice(body, t)), EOS)
            self.rows.append((body, head))

    def __len__(self):
        return len(self.rows)

    def __getitem__(self, i):
        return self.rows[i]


def collate(rows):
    s = max(len(b) for b, _ in rows)
    t = max(len(h) for _, h in rows)
    ids = torch.full((len(rows), s), PAD)
    labels = torch.full((len(rows), t), -100)
    for i, (body, head) in enumerate(rows):
        ids[i, : len(body)] = torch.from_numpy(body)
        labels[i, : len(head)] = torch.from_numpy(head)
    return {"input_ids": ids, "attention_mask": (ids != PAD).long(), "labels": labels}


def unigram_f1(p):
    scores = []
    for guess, truth in zip(p.predictions, p.label_ids):
        a, b = set(guess[guess > EOS].tolist()), set(truth[truth > EOS].tolist())
        scores.append(2 * len(a & b) / max(1, len(a) + len(b)))
    return {"rouge1": float(np.mean(scores))}


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--hidden", type=int, default=768)
    ap.add_argument("--layers", type=int, default=6)
    ap.add_argument("--vocab", type=int, default=30_522)
    ap.add_argument("--source", type=int, default=384)
    ap.add_argument("--target", type=int, default=80)
    ap.add_argument("--batch", type=int, default=20)
    ap.add_argument("--steps", type=int, default=30)
    ap.add_argument("--new-tokens", type=int, default=32)
    args = ap.parse_args()
    set_seed(12)
    config = ProphetNetConfig(
        vocab_size=args.vocab,
        hidden_size=args.hidden,
        encoder_ffn_dim=4 * args.hidden,
        decoder_ffn_dim=4 * args.hidden,
        num_encoder_layers=args.layers,
        num_decoder_layers=args.layers,
        num_encoder_attention_heads=args.hidden // 64,
        num_decoder_attention_heads=args.hidden // 64,
        ngram=2,
        pad_token_id=PAD,
        bos_token_id=BOS,
        eos_token_id=EOS,
        decoder_start_token_id=BOS,
    )
    model = ProphetNetForConditionalGeneration(config)
    with tempfile.TemporaryDirectory() as folder:
        training = Seq2SeqTrainingArguments(
            output_dir=folder,
            max_steps=args.steps,
            per_device_train_batch_size=args.batch,
            per_device_eval_batch_size=args.batch * 2,
            learning_rate=1e-4,
            lr_scheduler_type="linear",
            warmup_steps=4,
            bf16=True,
            predict_with_generate=True,
            generation_config=GenerationConfig(
                max_new_tokens=args.new_tokens,
                num_beams=4,
                no_repeat_ngram_size=3,
                length_penalty=1.2,
                pad_token_id=PAD,
                bos_token_id=BOS,
                eos_token_id=EOS,
                decoder_start_token_id=BOS,
            ),
            logging_steps=10,
            save_strategy="no",
            remove_unused_columns=False,
            report_to="none",
            disable_tqdm=True,
        )
        trainer = Seq2SeqTrainer(
            model=model,
            args=training,
            data_collator=collate,
            train_dataset=Tickets(args.batch * args.steps, args.source, args.target, args.vocab, 1),
            eval_dataset=Tickets(args.batch * 4, args.source, args.target, args.vocab, 2),
            compute_metrics=unigram_f1,
        )
        trainer.train()
        print(trainer.evaluate())


if __name__ == "__main__":
    main()
