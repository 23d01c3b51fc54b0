"""Fine-tune a Moonshine speech model on spoken orders (raw waveforms of up to ten seconds) with the Seq2SeqTrainer: bf16, workers, saves the last checkpoint, greedy decoding in evaluation."""

import argparse
import tempfile

import numpy as np
import torch
from torch.utils.data import Dataset
from transformers import (
    MoonshineConfig,
    MoonshineForConditionalGeneration,
    Seq2SeqTrainer,
    Seq2SeqTrainingArguments,
    set_seed,
)

RATE = 16_000


class SpokenOrders(Dataset):
    def __init__(self, count, seconds, words, vocab, seed):
        rng = np.random.default_rng(seed)
        self.seconds = rng.uniform(0.4 * seconds, seconds, count)
        self.lengths = rng.integers(4, words, count)
        self.vocab, self.seed = vocab, seed

    def __len__(self):
        return len(self.seconds)

    def __getitem__(self, i):
        rng = np.random.default_rng((self.seed, i))
        wave = rng.standard_normal(int(self.seconds[i] * RATE), dtype=np.float32) * 0.1
        text = rng.integers(3, self.vocab, self.lengths[i])
        return {"input_values": wave, "labels": np.append(text, 2)}


class PadSpeech:
    def __call__(self, rows):
        longest = max(len(r["input_values"]) for r in rows)
        most = max(len(r["labels"]) for r in rows)
        waves = torch.zeros(len(rows), longest)
        mask = torch.zeros(len(rows), longest, dtype=torch.long)
        labels = torch.full((len(rows), most), -100)
        for i, r in enumerate(rows):
            n = len(r["input_values"])
            waves[i, :n] = torch.from_numpy(r["input_values"])
            mask[i, :n] = 1
            labels[i, : len(r["labels"])] = torch.from_numpy(r["labels"])
        return {"input_values": waves, "attention_mask": mask, "labels": labels}


def edit_distance(a, b):
    row = list(range(len(b) + 1))
    for i, x in enumerate(a, 1):
        previous, row[0] = row[0], i
        for j, y in enumerate(b, 1):
            previous, row[j] = row[j], min(row[j] + 1, row[j - 1] + 1, previous + (x != y))
    return row[-1]


def word_errors(prediction):
    errors = total = 0
    for guess, truth in zip(prediction.predictions, prediction.label_ids):
        truth = [t for t in truth.tolist() if t > 2]
        guess = [t for t in guess.tolist() if t > 2]
        errors += edit_distance(guess, truth)
        total += len(truth)
    return {"wer": errors / max(total, 1)}


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--hidden", type=int, default=416)
    p.add_argument("--layers", type=int, default=8)
    p.add_argument("--vocab", type=int, default=32768)
    p.add_argument("--seconds", type=float, default=10.0)
    p.add_argument("--words", type=int, default=40)
    p.add_argument("--batch", type=int, default=96)
    p.add_argument("--steps", type=int, default=14)
    p.add_argument("--workers", type=int, default=6)
    p.add_argument("--cpu", action="store_true")
    a = p.parse_args()
    set_seed(29)

    model = MoonshineForConditionalGeneration(
        MoonshineConfig(
            vocab_size=a.vocab,
            hidden_size=a.hidden,
            intermediate_size=4 * a.hidden,
            encoder_num_hidden_layers=a.layers,
            decoder_num_hidden_layers=a.layers,
            pad_token_id=2,
        )
    )
    model.generation_config.max_length = a.words + 2
    model.generation_config.pad_token_id = 2
    with tempfile.TemporaryDirectory() as folder:
        args = Seq2SeqTrainingArguments(
            output_dir=folder,
            max_steps=a.steps,
            per_device_train_batch_size=a.batch,
            per_device_eval_batch_size=a.batch // 2,
            learning_rate=3e-4,
            warmup_steps=3,
            lr_scheduler_type="cosine",
            bf16=not a.cpu,
            predict_with_generate=True,
            eval_strategy="no",
            save_strategy="steps",
            save_steps=a.steps,
            save_total_limit=1,
            dataloader_num_workers=a.workers,
            logging_steps=2,
            report_to="none",
            use_cpu=a.cpu,
        )
        trainer = Seq2SeqTrainer(
            model=model,
            args=args,
            data_collator=PadSpeech(),
            train_dataset=SpokenOrders(a.batch * a.steps, a.seconds, a.words, a.vocab, 1),
            eval_dataset=SpokenOrders(a.batch, a.seconds, a.words, a.vocab, 2),
            compute_metrics=word_errors,
        )
        trainer.train()
        print(trainer.evaluate())


if __name__ == "__main__":
    main()
