"""Translation with Marian and Seq2SeqTrainer: Adafactor, checkpointing, label smoothing, beams in evaluation."""

import argparse
import random

import numpy as np
import torch
from transformers import (
    MarianConfig,
    MarianMTModel,
    Seq2SeqTrainer,
    Seq2SeqTrainingArguments,
    set_seed,
)


def sentences(count, vocab, longest, seed):
    """The other language says each word 3 numbers higher, in reverse."""
    rng = random.Random(seed)
    rows = []
    for _ in range(count):
        words = [
            rng.randrange(10, vocab - 10) for _ in range(rng.randint(longest // 3, longest - 1))
        ]
        rows.append({"input_ids": [*words, 0], "labels": [w + 3 for w in reversed(words)] + [0]})
    return rows


class Collator:
    def __init__(self, model, pad):
        self.model, self.pad = model, pad

    def __call__(self, rows):
        wide = max(len(r["input_ids"]) for r in rows)
        tall = max(len(r["labels"]) for r in rows)
        ids = [r["input_ids"] + [self.pad] * (wide - len(r["input_ids"])) for r in rows]
        labels = [r["labels"] + [-100] * (tall - len(r["labels"])) for r in rows]
        ids, labels = torch.tensor(ids), torch.tensor(labels)
        return {
            "input_ids": ids,
            "attention_mask": (ids != self.pad).long(),
            "labels": labels,
            "decoder_input_ids": self.model.prepare_decoder_input_ids_from_labels(labels=labels),
        }


def word_accuracy(prediction):
    guess, truth = prediction.predictions, prediction.label_ids
    if isinstance(guess, tuple):
        guess = guess[0]
    width = min(guess.shape[1] - 1, truth.shape[1])
    same = (guess[:, 1 : width + 1] == truth[:, :width]) & (truth[:, :width] != -100)
    return {
        "words": float(same.sum() / max((truth != -100).sum(), 1)),
        "length": float(np.mean(width)),
    }


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--rows", type=int, default=2400)
    p.add_argument("--vocab", type=int, default=32000)
    p.add_argument("--width", type=int, default=768)
    p.add_argument("--layers", type=int, default=8)
    p.add_argument("--longest", type=int, default=96)
    p.add_argument("--batch", type=int, default=64)
    p.add_argument("--eval-batch", type=int, default=64)
    p.add_argument("--beams", type=int, default=4)
    p.add_argument("--max-new", type=int, default=64)
    a = p.parse_args()
    set_seed(2)
    gpu = torch.cuda.is_available()
    model = MarianMTModel(
        MarianConfig(
            vocab_size=a.vocab,
            d_model=a.width,
            encoder_layers=a.layers,
            decoder_layers=a.layers,
            encoder_attention_heads=a.width // 64,
            decoder_attention_heads=a.width // 64,
            encoder_ffn_dim=4 * a.width,
            decoder_ffn_dim=4 * a.width,
            max_position_embeddings=512,
            pad_token_id=a.vocab - 1,
            decoder_start_token_id=a.vocab - 1,
            eos_token_id=0,
            forced_eos_token_id=0,
            scale_embedding=True,
        )
    )
    arguments = Seq2SeqTrainingArguments(
        output_dir="marian",
        num_train_epochs=1,
        per_device_train_batch_size=a.batch,
        per_device_eval_batch_size=a.eval_batch,
        gradient_checkpointing=True,
        label_smoothing_factor=0.1,
        optim="adafactor",
        learning_rate=1e-3,
        lr_scheduler_type="constant_with_warmup",
        warmup_steps=10,
        bf16=gpu,
        use_cpu=not gpu,
        eval_strategy="epoch",
        save_strategy="epoch",
        predict_with_generate=True,
        generation_max_length=a.max_new,
        generation_num_beams=a.beams,
        logging_steps=10,
        report_to="none",
    )
    trainer = Seq2SeqTrainer(
        model=model,
        args=arguments,
        train_dataset=sentences(a.rows, a.vocab, a.longest, 1),
        eval_dataset=sentences(a.rows // 12, a.vocab, a.longest, 2),
        data_collator=Collator(model, a.vocab - 1),
        compute_metrics=word_accuracy,
    )
    trainer.train()
    answer = trainer.predict(sentences(a.batch, a.vocab, a.longest, 3), num_beams=1)
    print(answer.metrics)


if __name__ == "__main__":
    main()
