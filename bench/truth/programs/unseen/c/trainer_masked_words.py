"""RoBERTa on made-up text: Trainer in bf16, accumulation, evaluation with larger batches, best model kept."""

import argparse
import random

import torch
from torch.utils.data import Dataset
from transformers import (
    RobertaConfig,
    RobertaForMaskedLM,
    Trainer,
    TrainingArguments,
    set_seed,
)

PAD, BOS, EOS, MASK = 1, 0, 2, 4


class Lines(Dataset):
    def __init__(self, count, width, vocab, seed):
        rng = random.Random(seed)
        self.rows = []
        for _ in range(count):
            start, step = rng.randrange(5, vocab), rng.randrange(1, 30)
            middle = [5 + (start + k * step) % (vocab - 5) for k in range(width - 2)]
            self.rows.append([BOS, *middle, EOS])

    def __len__(self):
        return len(self.rows)

    def __getitem__(self, i):
        return self.rows[i]


class MaskWords:
    """15 of 100 words are to be guessed: 80 % hidden, 10 % wrong, 10 % as they are."""

    def __init__(self, vocab, share=0.15):
        self.vocab, self.share = vocab, share

    def __call__(self, rows):
        ids = torch.tensor(rows)
        labels = ids.clone()
        chosen = (torch.rand(ids.shape) < self.share) & (ids > EOS)
        labels[~chosen] = -100
        roll = torch.rand(ids.shape)
        ids[chosen & (roll < 0.8)] = MASK
        wrong = chosen & (roll > 0.9)
        ids[wrong] = torch.randint(5, self.vocab, ids.shape)[wrong]
        return {
            "input_ids": ids,
            "attention_mask": torch.ones_like(ids),
            "labels": labels,
        }


def best_words(logits, labels):
    return logits.argmax(-1)


def accuracy(prediction):
    hidden = prediction.label_ids != -100
    right = prediction.predictions[hidden] == prediction.label_ids[hidden]
    return {"accuracy": float(right.mean())}


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--vocab", type=int, default=50265)
    p.add_argument("--hidden", type=int, default=768)
    p.add_argument("--layers", type=int, default=12)
    p.add_argument("--width", type=int, default=256)
    p.add_argument("--batch", type=int, default=16)
    p.add_argument("--eval-batch", type=int, default=48)
    p.add_argument("--accumulate", type=int, default=2)
    p.add_argument("--steps", type=int, default=30)
    p.add_argument("--lines", type=int, default=1500)
    a = p.parse_args()
    set_seed(77)
    gpu = torch.cuda.is_available()
    config = RobertaConfig(
        vocab_size=a.vocab,
        hidden_size=a.hidden,
        num_hidden_layers=a.layers,
        num_attention_heads=max(1, a.hidden // 64),
        intermediate_size=4 * a.hidden,
        max_position_embeddings=a.width + 2,
        type_vocab_size=1,
    )
    model = RobertaForMaskedLM(config)
    print(f"{model.num_parameters():,} parameters")
    arguments = TrainingArguments(
        output_dir="roberta",
        per_device_train_batch_size=a.batch,
        per_device_eval_batch_size=a.eval_batch,
        gradient_accumulation_steps=a.accumulate,
        max_steps=a.steps,
        bf16=gpu,
        use_cpu=not gpu,
        learning_rate=4e-4,
        weight_decay=0.01,
        warmup_steps=5,
        lr_scheduler_type="cosine",
        eval_strategy="steps",
        eval_steps=max(1, a.steps // 2),
        save_strategy="steps",
        save_steps=max(1, a.steps // 2),
        save_total_limit=1,
        load_best_model_at_end=True,
        metric_for_best_model="accuracy",
        logging_steps=5,
        dataloader_num_workers=2,
        remove_unused_columns=False,
        report_to=[],
    )
    trainer = Trainer(
        model=model,
        args=arguments,
        train_dataset=Lines(a.lines, a.width, a.vocab, 1),
        eval_dataset=Lines(a.lines // 10, a.width, a.vocab, 2),
        data_collator=MaskWords(a.vocab),
        compute_metrics=accuracy,
        preprocess_logits_for_metrics=best_words,
    )
    trainer.train()
    print(trainer.evaluate())
    trainer.save_model("roberta/final")


if __name__ == "__main__":
    main()
