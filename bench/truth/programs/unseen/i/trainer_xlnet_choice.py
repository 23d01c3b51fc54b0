"""Commonsense multiple choice (4 endings per context) with XLNet-base, fp16 and gradient accumulation."""

import argparse

import numpy as np
import torch
from transformers import Trainer, TrainingArguments, XLNetConfig, XLNetForMultipleChoice


def parse():
    p = argparse.ArgumentParser()
    p.add_argument("--train-size", type=int, default=416)
    p.add_argument("--dev-size", type=int, default=90)
    p.add_argument("--choices", type=int, default=4)
    p.add_argument("--length", type=int, default=128)
    p.add_argument("--batch", type=int, default=8)
    p.add_argument("--accumulate", type=int, default=4)
    p.add_argument("--eval-batch", type=int, default=20)
    p.add_argument("--epochs", type=int, default=1)
    p.add_argument("--layers", type=int, default=12)
    p.add_argument("--width", type=int, default=768)
    p.add_argument("--vocab", type=int, default=32000)
    return p.parse_args()


class Swag(torch.utils.data.Dataset):
    """Context shared by the four endings, left padded as XLNet likes it."""

    def __init__(self, n, choices, length, vocab, seed):
        g = torch.Generator().manual_seed(seed)
        self.ids = torch.randint(10, vocab, (n, choices, length), generator=g)
        self.mask = torch.ones_like(self.ids)
        pads = torch.randint(0, length // 2, (n, choices), generator=g)
        where = torch.arange(length).expand(n, choices, length) < pads[..., None]
        self.ids[where] = 5
        self.mask[where] = 0
        self.types = torch.zeros_like(self.ids)
        self.types[..., -length // 4 :] = 1
        self.types[where] = 3
        self.ids[..., -2], self.ids[..., -1] = 4, 3
        self.labels = torch.randint(0, choices, (n,), generator=g)

    def __len__(self):
        return len(self.labels)

    def __getitem__(self, i):
        return {
            "input_ids": self.ids[i],
            "attention_mask": self.mask[i],
            "token_type_ids": self.types[i],
            "labels": self.labels[i],
        }


def accuracy(pred):
    logits = pred.predictions[0] if isinstance(pred.predictions, tuple) else pred.predictions
    return {"accuracy": float((np.argmax(logits, -1) == pred.label_ids).mean())}


def main():
    a = parse()
    config = XLNetConfig(
        vocab_size=a.vocab,
        d_model=a.width,
        n_layer=a.layers,
        n_head=12,
        d_inner=4 * a.width,
        ff_activation="gelu",
        dropout=0.1,
    )
    model = XLNetForMultipleChoice(config)
    targs = TrainingArguments(
        output_dir="swag",
        num_train_epochs=a.epochs,
        per_device_train_batch_size=a.batch,
        gradient_accumulation_steps=a.accumulate,
        per_device_eval_batch_size=a.eval_batch,
        learning_rate=3e-5,
        fp16=True,
        max_grad_norm=1.0,
        lr_scheduler_type="polynomial",
        warmup_steps=2,
        eval_strategy="epoch",
        save_strategy="no",
        logging_steps=5,
        dataloader_drop_last=True,
        dataloader_num_workers=2,
        report_to="none",
        disable_tqdm=True,
    )
    trainer = Trainer(
        model=model,
        args=targs,
        train_dataset=Swag(a.train_size, a.choices, a.length, a.vocab, 0),
        eval_dataset=Swag(a.dev_size, a.choices, a.length, a.vocab, 1),
        compute_metrics=accuracy,
        preprocess_logits_for_metrics=lambda logits, labels: logits[0]
        if isinstance(logits, tuple)
        else logits,
    )
    result = trainer.train()
    print(result.metrics)
    trainer.save_model("swag/final")


if __name__ == "__main__":
    main()
